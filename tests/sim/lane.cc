// SPDX-License-Identifier: Apache-2.0
// Lane: set-up, what completes, and the end.
#include "sim/lane.h"

#include <algorithm>
#include <iterator>

namespace verbena::sim {

using transport::Completion;
using transport::SendOp;
using transport::WcOpcode;
using transport::WcStatus;

namespace {

constexpr size_t kWords = 16;  // 8 bytes each

[[nodiscard]] WcOpcode opcode_for(SendOp op) {
  switch (op) {
    case SendOp::kWrite:
    case SendOp::kWriteImm:        return WcOpcode::kWrite;
    case SendOp::kRead:            return WcOpcode::kRead;
    case SendOp::kCompareSwap:     return WcOpcode::kCompareSwap;
    case SendOp::kFetchAdd:        return WcOpcode::kFetchAdd;
    case SendOp::kAtomicWrite:     return WcOpcode::kAtomicWrite;
    case SendOp::kLocalInvalidate: return WcOpcode::kLocalInvalidate;
    case SendOp::kBindWindow:      return WcOpcode::kBindMw;
    default:                       return WcOpcode::kSend;
  }
}

}  // namespace

Lane::Lane(World& world, const End& from, const End& to, const LaneSpec& spec, SharedWords* shared)
    : world_(world),
      from_(from),
      to_(to),
      spec_(spec),
      shared_(shared != nullptr && shared->host() == to.host ? shared : nullptr),
      local_(world.register_region(from.host, size_t{spec.max_message} * 3 + 4096,
                                   memory::kLocalWrite)),
      target_(world.register_region(to.host, kWords * 8 + size_t{spec.max_message} * 2,
                                    memory::kLocalWrite | memory::kRemoteWrite |
                                        memory::kRemoteRead | memory::kRemoteAtomic |
                                        memory::kMwBind,
                                    spec.zero_based_target)),
      words_{target_.range.offset, kWords * 8},
      data_{words_.end(), target_.range.length - words_.length} {}

void Lane::set_ends(const End& from, const End& to) {
  from_ = from;
  to_ = to;
}

bool Lane::on_send_done(const Completion& completion) {
  const auto wr = static_cast<unsigned long long>(completion.wr_id);
  if (completion.status != WcStatus::kSuccess) {
    // Requests before it that are not signaled went well, silently.
    while (!outstanding_.empty() && outstanding_.front().id != completion.wr_id) {
      SIM_REQUIRE(!outstanding_.front().signaled,
                  "wr 0x%llx failed before an earlier one completed", wr);
      finish(outstanding_.front());
      outstanding_.pop_front();
    }
    SIM_REQUIRE(!outstanding_.empty(), "wr 0x%llx failed, but is not outstanding", wr);
    doubtful_.push_back(std::move(outstanding_.front()));
    outstanding_.pop_front();
    return false;
  }
  for (;;) {
    SIM_REQUIRE(!outstanding_.empty(), "wr 0x%llx completed, but is not outstanding (twice?)", wr);
    const Op op = std::move(outstanding_.front());
    outstanding_.pop_front();
    if (op.id == completion.wr_id) {
      SIM_REQUIRE(op.signaled, "wr 0x%llx completed though it is not signaled", wr);
      SIM_REQUIRE(completion.opcode == opcode_for(op.op), "wr 0x%llx completed with opcode %u", wr,
                  static_cast<unsigned>(completion.opcode));
      finish(op);
      return true;
    }
    SIM_REQUIRE(!op.signaled, "wr 0x%llx completed before wr 0x%llx", wr,
                static_cast<unsigned long long>(op.id));
    finish(op);
  }
}

void Lane::all_flushed() {
  // What is left went well before the error, silently.
  while (!outstanding_.empty()) {
    SIM_REQUIRE(!outstanding_.front().signaled,
                "a queue pair in error did not flush all its requests");
    const Op op = std::move(outstanding_.front());
    outstanding_.pop_front();
    finish(op);
  }
}

// The request is done: are its effects there?
void Lane::finish(const Op& op) {
  ++completed_;
  Arena& arena = world_.arena(from_.host);
  const auto id = static_cast<unsigned long long>(op.id);
  if (op.message) {
    SIM_REQUIRE(*op.message < delivered_, "wr 0x%llx completed, but its message never arrived", id);
  }
  if (op.op == SendOp::kRead) {
    size_t at = 0;
    for (const Range& piece : op.local) {
      arena.expect(piece.offset, std::span(op.expected).subspan(at, piece.length));
      SIM_REQUIRE(arena.as_expected(piece), "wr 0x%llx: READ of %zu bytes brought the wrong ones",
                  id, op.expected.size());
      at += piece.length;
    }
  }
  if (op.original || op.shared) {
    const uint64_t found = arena.word(op.local[0].offset);
    if (op.original) {
      SIM_REQUIRE(found == *op.original, "wr 0x%llx: an atomic found 0x%llx, and should 0x%llx", id,
                  static_cast<unsigned long long>(found),
                  static_cast<unsigned long long>(*op.original));
    }
    arena.accept(op.local[0]);
    if (op.shared) shared_->found(*op.shared, found);
  }
  if (op.op == SendOp::kBindWindow || op.op == SendOp::kLocalInvalidate)
    reverse_->window_changed(op.op);
  if (outstanding_.empty() && doubtful_.empty()) check_settled();
}

void Lane::window_changed(SendOp op) {
  const bool binding = window_.state == Window::State::kBinding;
  SIM_REQUIRE(binding || window_.state == Window::State::kUnbinding, "a window changed unasked");
  SIM_REQUIRE(!binding || op == SendOp::kBindWindow, "a window changed unasked");
  window_.state = binding ? Window::State::kBound : Window::State::kFree;
  if (binding) world_.scenes().add(Scene::kWindowBound);
}

void Lane::on_receive_done(const Completion& completion, RecvPool& pool) {
  const uint32_t slot = pool.completed(completion.wr_id);
  if (completion.status == WcStatus::kFlushed) return;
  SIM_REQUIRE(completion.status == WcStatus::kSuccess, "a receive failed: %s",
              transport::to_string(completion.status));
  SIM_REQUIRE(!messages_.empty(), "a message arrived that nobody sent, or twice");
  const Message message = std::move(messages_.front());
  messages_.pop_front();
  ++delivered_;
  SIM_REQUIRE(completion.opcode == (message.write ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv),
              "a receive completed with opcode %u", static_cast<unsigned>(completion.opcode));
  SIM_REQUIRE(completion.byte_len == message.length, "a message of %u bytes arrived with %u",
              message.length, completion.byte_len);
  SIM_REQUIRE(((completion.flags & transport::kWcWithImm) != 0) == message.has_imm &&
                  (!message.has_imm || completion.imm_or_rkey == message.imm),
              "a message arrived with the wrong immediate data");
  SIM_REQUIRE(
      ((completion.flags & transport::kWcWithInvalidate) != 0) == message.invalidated.has_value() &&
          (!message.invalidated || completion.imm_or_rkey == message.invalidated->value),
      "a message arrived with the wrong key to invalidate");
  SIM_REQUIRE(completion.source_qpn == from_.qpn, "a message arrived from the wrong queue pair");
  pool.require(slot, message.payload);
  if (message.invalidated) {
    window_.state = Window::State::kFree;
    world_.scenes().add(Scene::kRemoteInvalidate);
  }
  pool.done_with(slot);
}

void Lane::check_settled() {
  Arena& arena = world_.arena(to_.host);
  if (arena.as_expected(target_.range)) return;
  size_t at = target_.range.offset;
  while (*arena.real(at) == *arena.shadow(at)) ++at;
  violate("the memory at host %u that host %u writes to differs from the model at byte %zu",
          to_.host, from_.host, at - target_.range.offset);
}

void Lane::abandon() {
  Arena& from = world_.arena(from_.host);
  Arena& to = world_.arena(to_.host);
  std::ranges::move(outstanding_, std::back_inserter(doubtful_));
  for (const Op& op : doubtful_) {
    for (const Range& piece : op.local) from.accept(piece);
    to.accept(op.remote);
    if (op.shared) shared_->lost(*op.shared);
  }
  doubtful_.clear();
  outstanding_.clear();
  messages_.clear();
  delivered_ = next_message_;
  check_settled();
  if (window_.state != Window::State::kNone) {
    // A bind that was under way has changed the key, or has not.
    memory::Domain& domain = world_.node(to_.host).memory();
    SIM_REQUIRE(domain.deallocate_window(window_.key).has_value() ||
                    domain.deallocate_window(window_.key_before).has_value(),
                "a window could not be deallocated");
    window_ = {};
  }
}

}  // namespace verbena::sim
