// SPDX-License-Identifier: Apache-2.0
// Lane: choosing and posting requests, and telling the model what they will do.
#include <algorithm>
#include <cstring>

#include "sim/lane.h"

namespace verbena::sim {

using transport::SendOp;
using transport::SendRequest;

uint32_t Lane::draw_length() {
  const uint32_t mtu = spec_.mtu;
  const uint64_t dice = world_.draw(0, 99);
  uint64_t most = spec_.max_message;
  if (dice < 10) return 0;
  if (dice < 25)
    most = spec_.max_inline;
  else if (dice < 55)
    most = mtu;
  else if (dice < 85)
    most = 4 * mtu;
  else if (dice < 97)
    most = 16 * mtu;
  most = std::min<uint64_t>(most, spec_.max_message);
  // Whole packets are where off-by-one errors live.
  if (most >= mtu && world_.chance(30))
    return static_cast<uint32_t>(world_.draw(1, most / mtu) * mtu);
  return static_cast<uint32_t>(world_.draw(1, most));
}

std::optional<Range> Lane::find_local(size_t bytes, const std::vector<Range>& taken) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    const Range range{local_.range.offset + world_.draw(0, local_.range.length - bytes), bytes};
    const auto clash = [&](const Range& other) { return range.overlaps(other); };
    if (std::ranges::any_of(taken, clash)) continue;
    const bool used = std::ranges::any_of(
        outstanding_, [&](const Op& op) { return std::ranges::any_of(op.local, clash); });
    if (!used) return range;
  }
  return std::nullopt;
}

// Memory at `from` for `length` bytes in one or more pieces; a source is filled with fresh bytes.
bool Lane::take_local(Op& op, uint32_t length, bool source) {
  uint32_t left = length;
  while (left > 0 || op.local.empty()) {
    uint32_t n = left;
    if (op.local.size() + 1 < spec_.max_sge && world_.chance(35)) {
      n = static_cast<uint32_t>(world_.draw(0, left));
    }
    const auto range = find_local(n, op.local);
    if (!range) return false;
    op.local.push_back(*range);
    left -= n;
  }
  if (source) {
    for (const Range& piece : op.local) world_.arena(from_.host).fill(piece, world_.random());
  }
  return true;
}

std::vector<uint8_t> Lane::bytes_of(const std::vector<Range>& pieces) const {
  std::vector<uint8_t> bytes;
  for (const Range& piece : pieces) {
    const uint8_t* const at = world_.arena(from_.host).real(piece.offset);
    bytes.insert(bytes.end(), at, at + piece.length);
  }
  return bytes;
}

bool Lane::read_under_way(const Range& range) const {
  return std::ranges::any_of(outstanding_, [&](const Op& op) {
    return op.op == SendOp::kRead && op.remote.overlaps(range);
  });
}

// Names the range at the target, sometimes through the window.
void Lane::address(SendRequest& request, Op& op, const Range& range) {
  op.remote = range;
  request.remote_addr = RemoteAddr(target_.addr(range.offset));
  request.rkey = target_.keys.rkey;
  if (range.length == 0 && world_.chance(30)) request.rkey = RKey(0xdead);  // nobody looks at it
  if (window_.state == Window::State::kBound && window_.range.holds(range) && range.length != 0) {
    request.rkey = window_.key;
    op.through_window = true;
  }
}

void Lane::note_scenes(const SendRequest& request, const Op& op, uint64_t length) {
  Scenes& scenes = world_.scenes();
  const bool local = request.op == SendOp::kBindWindow || request.op == SendOp::kLocalInvalidate;
  if ((request.flags & transport::kFence) != 0) scenes.add(Scene::kFence);
  if ((request.flags & transport::kInline) != 0) scenes.add(Scene::kInline);
  if (!local && length == 0) scenes.add(Scene::kZeroLength);
  if (op.through_window) scenes.add(Scene::kWindowUsed);
  if (op.shared) scenes.add(Scene::kSharedAtomic);
  if (length > uint64_t{32} * spec_.mtu) scenes.add(Scene::kLongMessage);
}

bool Lane::post(SendRequest& request, Op op) {
  op.id = next_id_++;
  op.op = request.op;
  request.wr_id = op.id;
  op.signaled = op.signaled || spec_.signal_all || outstanding_.size() + 2 >= spec_.depth ||
                world_.chance(60);
  if (op.signaled && !spec_.signal_all) request.flags |= transport::kSignaled;
  if (world_.chance(10)) request.flags |= transport::kFence;
  if (world_.chance(20)) request.flags |= transport::kSolicited;

  std::vector<memory::Sge> list;
  uint64_t length = 0;
  for (const Range& piece : op.local) length += piece.length;
  const bool can_inline = request.op != SendOp::kRead && request.op != SendOp::kCompareSwap &&
                          request.op != SendOp::kFetchAdd && !op.local.empty();
  const bool use_inline = can_inline && length <= spec_.max_inline && world_.chance(50);
  for (const Range& piece : op.local) {
    const uint64_t at =
        use_inline ? reinterpret_cast<uint64_t>(world_.arena(from_.host).real(piece.offset))
                   : local_.addr(piece.offset);
    list.push_back(
        {at, static_cast<uint32_t>(piece.length), use_inline ? LKey(0) : local_.keys.lkey});
  }
  if (use_inline) request.flags |= transport::kInline;
  request.list = list;
  world_.trace().mix(0x300 + static_cast<uint64_t>(request.op), op.id, length);
  if (world_.trace().printing()) {
    world_.trace().say("host %u  qp 0x%06x posts wr 0x%llx op %u, %llu bytes%s%s", from_.host,
                       from_.qpn.value, static_cast<unsigned long long>(op.id),
                       static_cast<unsigned>(request.op), static_cast<unsigned long long>(length),
                       (request.flags & transport::kFence) != 0 ? " fence" : "",
                       op.signaled ? "" : " unsignaled");
  }
  note_scenes(request, op, length);
  outstanding_.push_back(std::move(op));
  ++posted_;
  const auto posted = world_.endpoint(from_.host).post_send(from_.qpn, request, world_.now());
  SIM_REQUIRE(posted.has_value(), "post_send refused a good request: %s",
              transport::to_string(posted.error()));
  return true;
}

void Lane::expect_message(Op& op, bool write, uint32_t length, std::vector<uint8_t> payload,
                          const SendRequest& request) {
  Message message;
  message.number = next_message_++;
  op.message = message.number;
  message.write = write;
  message.length = length;
  message.payload = std::move(payload);
  message.has_imm = request.op == SendOp::kSendImm || request.op == SendOp::kWriteImm;
  message.imm = request.imm;
  if (request.op == SendOp::kSendInvalidate) message.invalidated = request.invalidate;
  messages_.push_back(std::move(message));
}

bool Lane::post_send(SendOp kind) {
  Op op;
  SendRequest request;
  request.op = kind;
  request.imm = static_cast<uint32_t>(world_.random().next());
  const uint32_t length = draw_length();
  if (!take_local(op, length, true)) return false;
  if (kind == SendOp::kSendInvalidate) {
    request.invalidate = window_.key;
    window_.state = Window::State::kUnbinding;
    // READs through the window must be over before it goes.
    request.flags |= transport::kFence;
  }
  expect_message(op, false, length, bytes_of(op.local), request);
  return post(request, std::move(op));
}

bool Lane::post_write(SendOp kind) {
  Op op;
  SendRequest request;
  request.op = kind;
  request.imm = static_cast<uint32_t>(world_.random().next());
  const uint32_t length = draw_length();
  Range range{0, length};
  range.offset = data_.offset + world_.draw(0, data_.length - length);
  if (read_under_way(range)) {
    if (world_.chance(50)) return false;
    request.flags |= transport::kFence;
  }
  if (!take_local(op, length, true)) return false;
  address(request, op, range);
  world_.arena(to_.host).expect(range.offset, bytes_of(op.local));
  if (kind == SendOp::kWriteImm) expect_message(op, true, length, {}, request);
  return post(request, std::move(op));
}

bool Lane::post_read() {
  Op op;
  SendRequest request;
  request.op = SendOp::kRead;
  const uint32_t length = draw_length();
  Range range{0, length};
  range.offset = target_.range.offset + world_.draw(0, target_.range.length - length);
  if (!take_local(op, length, false)) return false;
  address(request, op, range);
  const uint8_t* const expected = world_.arena(to_.host).shadow(range.offset);
  op.expected.assign(expected, expected + length);
  return post(request, std::move(op));
}

bool Lane::post_atomic(SendOp kind) {
  Op op;
  SendRequest request;
  request.op = kind;
  const Range word{words_.offset + 8 * world_.draw(0, words_.length / 8 - 1), 8};
  if (read_under_way(word)) request.flags |= transport::kFence;
  if (!take_local(op, 8, kind == SendOp::kAtomicWrite)) return false;
  Arena& arena = world_.arena(to_.host);
  const uint64_t before = arena.shadow_word(word.offset);
  uint64_t after = 0;
  if (kind == SendOp::kAtomicWrite) {
    std::memcpy(&after, bytes_of(op.local).data(), sizeof after);
  } else {
    // The result goes to one aligned or unaligned piece.
    const Range whole = op.local.front();
    op.local.clear();
    const auto place = whole.length == 8 ? std::optional(whole) : find_local(8, {});
    if (!place) return false;
    op.local.push_back(*place);
    op.original = before;
    if (kind == SendOp::kFetchAdd) {
      request.compare_add = world_.random().next();
      after = before + request.compare_add;
    } else {
      const bool matches = world_.chance(60);
      request.compare_add = matches ? before : world_.random().next();
      request.swap = world_.random().next();
      after = request.compare_add == before ? request.swap : before;
    }
  }
  address(request, op, word);
  arena.set_shadow_word(word.offset, after);
  return post(request, std::move(op));
}

bool Lane::post_shared_atomic() {
  if (shared_ == nullptr) return false;
  Op op;
  const auto place = find_local(8, {});
  if (!place) return false;
  op.local.push_back(*place);
  op.shared = shared_->attempt();
  SendRequest request;
  request.op = op.shared->swap ? SendOp::kCompareSwap : SendOp::kFetchAdd;
  const Range word = op.shared->swap ? shared_->chain() : shared_->counter();
  request.remote_addr = RemoteAddr(shared_->region().addr(word.offset));
  request.rkey = shared_->region().keys.rkey;
  request.compare_add = op.shared->swap ? op.shared->compare : 1;
  request.swap = op.shared->value;
  return post(request, std::move(op));
}

// Binds the window, or takes it away, by a request at the far end.
bool Lane::tend_window() {
  using State = Window::State;
  if (!spec_.use_windows || reverse_->outstanding_.size() + 1 >= reverse_->spec_.depth)
    return false;
  memory::Domain& domain = world_.node(to_.host).memory();
  Op op;
  SendRequest request;
  request.op = SendOp::kBindWindow;
  if (window_.state == State::kNone) {
    window_.type = world_.chance(75) ? memory::WindowType::kType2 : memory::WindowType::kType1;
    window_.key = domain.allocate_window(world_.host(to_.host).pd, window_.type).value();
    window_.state = State::kFree;
  }
  if (window_.state == State::kFree) {
    const size_t length = world_.draw(1, data_.length);
    window_.range = {data_.offset + world_.draw(0, data_.length - length), length};
    window_.state = State::kBinding;
    request.window = window_.key;
    request.bind = {.region = target_.keys.lkey,
                    .addr = target_.addr(window_.range.offset),
                    .length = length,
                    .access = memory::kRemoteWrite | memory::kRemoteRead,
                    .tag = static_cast<uint8_t>(window_.key.value + 1)};
    window_.key_before = window_.key;
    window_.key = RKey((window_.key.value & ~0xffu) | ((window_.key.value + 1) & 0xff));
    return reverse_->post(request, std::move(op));
  }
  if (window_.state != State::kBound) return false;
  if (window_.type == memory::WindowType::kType2 && world_.chance(60)) {
    return post_send(SendOp::kSendInvalidate);
  }
  // From its own side only when nobody uses it.
  if (std::ranges::any_of(outstanding_, &Op::through_window)) return false;
  window_.state = State::kUnbinding;
  if (window_.type == memory::WindowType::kType2) {
    request.op = SendOp::kLocalInvalidate;
    request.invalidate = window_.key;
  } else {
    request.window = window_.key;  // length 0 unbinds
    window_.key_before = window_.key;
    window_.key = RKey((window_.key.value & ~0xffu) | ((window_.key.value + 1) & 0xff));
  }
  return reverse_->post(request, std::move(op));
}

bool Lane::post_random() {
  if (outstanding_.size() >= spec_.depth) return false;
  const uint64_t dice = world_.draw(0, 99);
  if (dice < 16) return post_send(SendOp::kSend);
  if (dice < 24) return post_send(SendOp::kSendImm);
  if (dice < 42) return post_write(SendOp::kWrite);
  if (dice < 50) return post_write(SendOp::kWriteImm);
  if (dice < 66) return post_read();
  if (dice < 71) return post_atomic(SendOp::kCompareSwap);
  if (dice < 77) return post_atomic(SendOp::kFetchAdd);
  if (dice < 82) return post_atomic(SendOp::kAtomicWrite);
  if (dice < 90) return post_shared_atomic();
  return tend_window();
}

bool Lane::post_last() {
  if (outstanding_.size() >= spec_.depth) return false;
  Op op;
  SendRequest request;
  request.op = SendOp::kWrite;
  op.signaled = true;
  const auto place = find_local(0, {});
  op.local.push_back(place.value());
  request.flags = transport::kSignaled;
  address(request, op, {data_.offset, 0});
  return post(request, std::move(op));
}

}  // namespace verbena::sim
