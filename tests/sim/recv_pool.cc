// SPDX-License-Identifier: Apache-2.0
#include "sim/recv_pool.h"

#include <algorithm>

namespace verbena::sim {

RecvPool::RecvPool(World& world, uint32_t host, const PoolSpec& spec)
    : world_(world),
      host_(host),
      spec_(spec),
      region_(
          world.register_region(host, size_t{spec.slots} * spec.slot_bytes, memory::kLocalWrite)),
      slots_(spec.slots) {
  for (uint32_t i = 0; i < spec.slots; ++i) {
    slots_[i].range = {region_.range.offset + size_t{i} * spec.slot_bytes, spec.slot_bytes};
  }
}

transport::SharedRecvQueue* RecvPool::make_srq() {
  srq_ =
      world_.endpoint(host_).create_srq(world_.host(host_).pd, spec_.slots, spec_.max_sge).value();
  world_.own_srq(host_, srq_->id, *this);
  return srq_;
}

void RecvPool::start() {
  running_ = true;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == Slot::State::kFree) done_with(i);
  }
  if (srq_ != nullptr && !armed_) arm_limit();
}

void RecvPool::arm_limit() {
  armed_ = true;
  const auto armed = world_.endpoint(host_).arm_srq_limit(srq_->id, std::max(1u, spec_.slots / 3));
  SIM_REQUIRE(armed.has_value(), "arming an SRQ's limit was refused");
}

void RecvPool::on_limit() {
  SIM_REQUIRE(armed_, "a limit event of an SRQ that was not armed");
  armed_ = false;
  world_.scenes().add(Scene::kSrqLimit);
  world_.after(static_cast<Duration>(world_.draw(1, 2'000'000)), [this] { arm_limit(); });
}

void RecvPool::post(uint32_t index) {
  Slot& slot = slots_[index];
  slot.wr_id = uint64_t{1} << 63 | next_wr_++ << 16 | index;
  slot.state = Slot::State::kPosted;
  slot.bad = world_.chance(spec_.bad_percent);
  order_.push_back(index);
  // The slot as one to max_sge entries.
  std::vector<memory::Sge> list;
  size_t at = slot.range.offset;
  while (at < slot.range.end()) {
    size_t n = slot.range.end() - at;
    if (list.size() + 1 < spec_.max_sge && world_.chance(40)) n = world_.draw(0, n);
    list.push_back({region_.addr(at), static_cast<uint32_t>(n), region_.keys.lkey});
    if (slot.bad) list.back().lkey = LKey(region_.keys.lkey.value ^ 0x55);
    at += n;
  }
  const transport::RecvRequest request{slot.wr_id, list};
  const auto posted = srq_ != nullptr ? world_.endpoint(host_).post_srq_recv(srq_->id, request)
                                      : world_.endpoint(host_).post_recv(qpn_, request);
  SIM_REQUIRE(posted.has_value(), "posting a receive was refused: %s",
              transport::to_string(posted.error()));
}

uint32_t RecvPool::completed(uint64_t wr_id) {
  const auto index = static_cast<uint32_t>(wr_id & 0xffff);
  SIM_REQUIRE(wr_id >> 63 == 1 && index < slots_.size(), "a receive completed that nobody posted");
  Slot& slot = slots_[index];
  SIM_REQUIRE(slot.state == Slot::State::kPosted && slot.wr_id == wr_id,
              "a receive completed twice: wr 0x%llx", static_cast<unsigned long long>(wr_id));
  const auto place = std::ranges::find(order_, index);
  SIM_REQUIRE(srq_ != nullptr || place == order_.begin(), "receives completed out of order");
  order_.erase(place);
  slot.state = Slot::State::kInUse;
  return index;
}

void RecvPool::require(uint32_t slot, std::span<const uint8_t> bytes) {
  Arena& arena = world_.arena(host_);
  SIM_REQUIRE(bytes.size() <= slots_[slot].range.length,
              "a message longer than its receive was accepted");
  arena.expect(slots_[slot].range.offset, bytes);
  SIM_REQUIRE(arena.as_expected(slots_[slot].range),
              "a received message of %zu bytes is not what was sent", bytes.size());
}

void RecvPool::done_with(uint32_t index) {
  slots_[index].state = Slot::State::kFree;
  if (!running_) return;
  if (!world_.chance(spec_.late_percent)) return post(index);
  slots_[index].state = Slot::State::kInUse;
  world_.after(static_cast<Duration>(world_.random().below(static_cast<uint64_t>(spec_.max_late))),
               [this, index, generation = generation_] {
                 if (generation == generation_ && running_) post(index);
               });
}

void RecvPool::stop() {
  running_ = false;
  ++generation_;
  order_.clear();
  for (Slot& slot : slots_) slot.state = Slot::State::kFree;
  accept_memory();
}

void RecvPool::accept_memory() { world_.arena(host_).accept(region_.range); }

}  // namespace verbena::sim
