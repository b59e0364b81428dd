// SPDX-License-Identifier: Apache-2.0
#include "sim/uc_pair.h"

#include <algorithm>
#include <cstring>

namespace verbena::sim {

using transport::Completion;
using transport::QpState;
using transport::QpType;
using transport::SendOp;
using transport::WcStatus;

namespace {

// Byte i of what a WRITE with this pattern carries.
[[nodiscard]] uint8_t pattern_byte(uint64_t pattern, uint32_t i) {
  return static_cast<uint8_t>((pattern + i * 0x9e3779b97f4a7c15) >> 56);
}

}  // namespace

UcPair::UcPair(World& world, const UcSpec& spec) : world_(world), spec_(spec) {
  for (uint32_t i : {0u, 1u}) {
    Side& side = sides_[i];
    const uint32_t host = spec.host[i];
    side.pool = std::make_unique<RecvPool>(world, host, spec.pool);
    side.local = world.register_region(host, size_t{spec.max_message} * 4, memory::kLocalWrite);
    side.target = world.register_region(host, size_t{slot_bytes()} * kSlots,
                                        memory::kLocalWrite | memory::kRemoteWrite);
    link::SimulatedNode& node = world.node(host);
    transport::QpInit init;
    init.type = QpType::kUc;
    init.pd = world.host(host).pd;
    init.send_cq = node.send_cq();
    init.recv_cq = node.recv_cq();
    init.send = {16, 2, 32};
    init.max_recv_entries = spec.pool.slots;
    init.max_recv_sge = spec.pool.max_sge;
    side.end = {host, node.endpoint().create_qp(init).value()};
    side.pool->use_qp(side.end.qpn);
    world.own(host, side.end.qpn, *this, i);
  }
}

void UcPair::start() {
  for (uint32_t i : {0u, 1u}) {
    Terms terms;
    terms.mtu = spec_.mtu;
    terms.send_psn = spec_.psn[i];
    terms.recv_psn = spec_.psn[1 - i];
    connect(world_, sides_[i].end, QpType::kUc, sides_[1 - i].end, terms);
    sides_[i].pool->start();
    sides_[i].budget = spec_.budget;
    tick(i);
  }
}

void UcPair::tick(uint32_t i) {
  Side& side = sides_[i];
  const uint64_t burst = world_.draw(1, 3);
  for (uint64_t k = 0;
       k < burst && side.budget > 0 && !side.stopped && side.outstanding.size() < 16; ++k) {
    --side.budget;
    post(i);
  }
  world_.dispatch();
  if (side.budget == 0) return;
  world_.after(static_cast<Duration>(world_.draw(1, static_cast<uint64_t>(spec_.pace))),
               [this, i] { tick(i); });
}

void UcPair::post(uint32_t i) {
  Side& side = sides_[i];
  Side& peer = sides_[1 - i];
  const uint64_t dice = world_.draw(0, 99);
  const SendOp op = dice < 30   ? SendOp::kSend
                    : dice < 50 ? SendOp::kSendImm
                    : dice < 80 ? SendOp::kWrite
                                : SendOp::kWriteImm;
  const bool write = op == SendOp::kWrite || op == SendOp::kWriteImm;
  const uint64_t most = world_.chance(60) ? transport::mtu_bytes(spec_.mtu) : spec_.max_message;
  const auto length = static_cast<uint32_t>(
      world_.chance(10) ? 0 : world_.draw(1, std::min<uint64_t>(most, spec_.max_message)));
  Range local{side.local.range.offset + world_.draw(0, side.local.range.length - length), length};
  // A source may not change while it is being sent.
  const bool busy = std::ranges::any_of(side.outstanding,
                                        [&](const Request& r) { return r.local.overlaps(local); });
  if (busy) return;
  const uint64_t pattern = world_.random().next();
  Arena& arena = world_.arena(side.end.host);
  for (uint32_t k = 0; k < length; ++k) *arena.real(local.offset + k) = pattern_byte(pattern, k);
  arena.accept(local);

  transport::SendRequest request;
  request.wr_id = next_id_++;
  request.op = op;
  request.flags = transport::kSignaled;
  request.imm = static_cast<uint32_t>(world_.random().next());
  memory::Sge sge{side.local.addr(local.offset), length, side.local.keys.lkey};
  const bool bad_local = length > 0 && world_.chance(4);
  if (bad_local) sge.lkey = LKey(sge.lkey.value ^ 0x33);
  request.list = {&sge, 1};
  const bool bad_remote = write && length > 0 && !bad_local && world_.chance(8);
  if (write) {
    const auto slot = static_cast<uint32_t>(world_.draw(0, kSlots - 1));
    const size_t at = peer.target.range.offset + size_t{slot} * slot_bytes();
    request.remote_addr = RemoteAddr(peer.target.addr(at));
    request.rkey = bad_remote ? RKey(peer.target.keys.rkey.value ^ 0x77) : peer.target.keys.rkey;
    if (!bad_local && !bad_remote) peer.written[slot].push_back({pattern, length});
  }
  if (!bad_local && !bad_remote && op != SendOp::kWrite) {
    Message message{.write = write,
                    .has_imm = op != SendOp::kSend,
                    .imm = request.imm,
                    .payload = {},
                    .length = length};
    if (!write) message.payload.assign(arena.real(local.offset), arena.real(local.offset) + length);
    side.sent.push_back(std::move(message));
  }
  side.outstanding.push_back({request.wr_id, bad_local, local});
  ++posted_;
  world_.trace().mix(0x400, request.wr_id, length);
  const auto posted = world_.endpoint(side.end.host).post_send(side.end.qpn, request, world_.now());
  SIM_REQUIRE(posted.has_value(), "UC post_send refused: %s", transport::to_string(posted.error()));
}

void UcPair::on_send_done(uint32_t i, const Completion& completion) {
  Side& side = sides_[i];
  SIM_REQUIRE(!side.outstanding.empty() && side.outstanding.front().id == completion.wr_id,
              "UC requests completed out of order or twice");
  const Request request = side.outstanding.front();
  side.outstanding.pop_front();
  if (side.stopped) {
    SIM_REQUIRE(completion.status == WcStatus::kFlushed,
                "a request behind a failed one was not flushed");
  } else if (request.bad_local) {
    SIM_REQUIRE(completion.status == WcStatus::kLocalProtection, "a bad local key gave: %s",
                transport::to_string(completion.status));
    side.stopped = true;
  } else {
    SIM_REQUIRE(completion.status == WcStatus::kSuccess, "a UC request failed: %s",
                transport::to_string(completion.status));
  }
  if (!side.stopped || !side.outstanding.empty()) return;
  const auto attr = world_.endpoint(side.end.host).query_qp(side.end.qpn);
  SIM_REQUIRE(attr->state == QpState::kSqe, "a failed send did not stop the UC send queue");
  world_.after(static_cast<Duration>(world_.draw(1, 100'000)), [this, i] {
    sides_[i].stopped = false;
    move_to(world_, sides_[i].end, QpState::kRts);
  });
}

void UcPair::on_receive_done(uint32_t i, const Completion& completion) {
  Side& side = sides_[i];
  const Side& peer = sides_[1 - i];
  SIM_REQUIRE(completion.status == WcStatus::kSuccess, "a UC receive failed: %s",
              transport::to_string(completion.status));
  const uint32_t slot = side.pool->completed(completion.wr_id);
  Arena& arena = world_.arena(side.end.host);
  const uint8_t* const got = arena.real(side.pool->range(slot).offset);
  const bool has_imm = (completion.flags & transport::kWcWithImm) != 0;
  // The next of those sent that it can be; those in between were lost.
  const auto match = std::find_if(
      peer.sent.begin() + static_cast<ptrdiff_t>(side.next_expected), peer.sent.end(),
      [&](const Message& m) {
        if (m.length != completion.byte_len || m.has_imm != has_imm) return false;
        if (has_imm && m.imm != completion.imm_or_rkey) return false;
        if (m.write != (completion.opcode == transport::WcOpcode::kRecvWriteImm)) return false;
        return m.payload.empty() || std::memcmp(m.payload.data(), got, m.payload.size()) == 0;
      });
  SIM_REQUIRE(match != peer.sent.end(),
              "a UC message of %u bytes arrived that was not sent, or twice", completion.byte_len);
  side.next_expected = static_cast<size_t>(match - peer.sent.begin()) + 1;
  world_.scenes().add(Scene::kUcDelivered);
  // Beyond the message may lie the remains of a longer one that was cut off.
  arena.accept(side.pool->range(slot));
  side.pool->done_with(slot);
}

bool UcPair::done() const {
  return std::ranges::all_of(sides_, [](const Side& side) {
    return side.budget == 0 && side.outstanding.empty() && !side.stopped;
  });
}

void UcPair::check_targets() {
  for (Side& side : sides_) {
    Arena& arena = world_.arena(side.end.host);
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const size_t at = side.target.range.offset + size_t{slot} * slot_bytes();
      for (uint32_t k = 0; k < slot_bytes(); ++k) {
        const uint8_t byte = *arena.real(at + k);
        if (byte == 0) continue;  // never written
        const bool known = std::ranges::any_of(side.written[slot], [&](const Written& w) {
          return k < w.length && pattern_byte(w.pattern, k) == byte;
        });
        SIM_REQUIRE(known, "UC: a byte in the target that nobody wrote there");
      }
    }
    arena.accept(side.target.range);
    side.pool->accept_memory();
  }
}

}  // namespace verbena::sim
