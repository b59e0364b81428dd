// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <algorithm>

#include "base/check.h"
#include "wire/describe.h"
#include "wire/network.h"
#include "wire/packet.h"

namespace verbena::sim {
namespace {

constexpr uint64_t kMaxStepsAtOneMoment = 200'000;

[[nodiscard]] uint64_t owner_key(uint32_t host, uint32_t number) {
  return uint64_t{host} << 32 | number;
}

[[nodiscard]] const char* in_words(link::FrameEvent::Kind kind) {
  using Kind = link::FrameEvent::Kind;
  switch (kind) {
    case Kind::kSent:       return "sends";
    case Kind::kLost:       return "LOST";
    case Kind::kOverflowed: return "OVERFLOWED";
    case Kind::kBlocked:    return "BLOCKED";
    case Kind::kDuplicated: return "DUPLICATED";
    case Kind::kDelayed:    return "DELAYED";
    case Kind::kCorrupted:  return "CORRUPTED";
    case Kind::kArrived:    return "arrives";
    case Kind::kNoPort:     return "to nobody";
  }
  return "?";
}

[[nodiscard]] std::string frame_in_words(std::span<const uint8_t> bytes) {
  const auto frame = wire::dissect(bytes);
  if (!frame) return "(not a RoCE frame)";
  const auto view = wire::parse(frame->transport);
  return view ? wire::describe(*view) : "(malformed packet)";
}

}  // namespace

World::World(uint64_t seed, Trace& trace) : trace_(trace), random_(seed) {}

void World::make_network(const link::LinkSpeed& speed, const link::FaultRates& rates) {
  faults_ = std::make_unique<link::RandomFaults>(random_, rates);
  network_ = std::make_unique<link::SimulatedNetwork>(speed, *faults_);
  network_->set_observer(this);
}

uint32_t World::add_host(link::NodeOptions options, size_t arena_bytes) {
  Host host;
  host.node = std::make_unique<link::SimulatedNode>(*network_, random_, options);
  host.arena = std::make_unique<Arena>(arena_bytes);
  host.pd = host.node->memory().allocate_pd().value();
  host.other_pd = host.node->memory().allocate_pd().value();
  host.iova = (uint64_t{hosts_.size()} + 1) << 40;
  hosts_.push_back(std::move(host));
  return static_cast<uint32_t>(hosts_.size() - 1);
}

Region World::register_region(uint32_t host, size_t bytes, uint32_t access, bool zero_based) {
  Host& h = hosts_[host];
  const Range range = h.arena->carve(bytes);
  Region region{.range = range, .start = zero_based ? 0 : h.iova + range.offset, .keys = {}};
  region.keys =
      h.node->memory()
          .register_region(h.pd, {.base = h.arena->real(range.offset),
                                  .length = range.length,
                                  .iova = region.start,
                                  .access = access | (zero_based ? memory::kZeroBased : 0u)})
          .value();
  return region;
}

Region World::register_again(uint32_t host, const Range& range, uint32_t access, PdId pd) {
  Host& h = hosts_[host];
  Region region{.range = range, .start = h.iova + range.offset, .keys = {}};
  region.keys = h.node->memory()
                    .register_region(pd, {.base = h.arena->real(range.offset),
                                          .length = range.length,
                                          .iova = region.start,
                                          .access = access})
                    .value();
  return region;
}

void World::own(uint32_t host, Qpn qpn, Actor& actor, uint32_t end) {
  owners_[owner_key(host, qpn.value)] = {&actor, end};
}

void World::disown(uint32_t host, Qpn qpn) { owners_.erase(owner_key(host, qpn.value)); }

void World::own_srq(uint32_t host, SrqId srq, SrqOwner& owner) {
  srq_owners_[owner_key(host, srq.value)] = &owner;
}

void World::at(Time when, std::function<void()> action) {
  timers_.push_back({std::max(when, now_), next_order_++, std::move(action)});
  std::push_heap(timers_.begin(), timers_.end());
}

void World::on_frame(const link::FrameEvent& event) {
  trace_.mix(static_cast<uint64_t>(event.kind), event.serial,
             uint64_t{event.from} << 32 | event.to);
  if (event.kind == link::FrameEvent::Kind::kSent) trace_.mix_bytes(event.bytes);
  if (trace_.printing() && event.kind != link::FrameEvent::Kind::kArrived) {
    trace_.say("host %u -> %u  #%llu %-10s %s", event.from, event.to,
               static_cast<unsigned long long>(event.serial), in_words(event.kind),
               frame_in_words(event.bytes).c_str());
  }
  for (FrameTap* tap : taps_) tap->on_frame(event);
}

void World::hand_over(uint32_t host, const link::Notice& notice) {
  using Kind = link::Notice::Kind;
  trace_.mix(0x100 + static_cast<uint64_t>(notice.kind), notice.completion.wr_id,
             static_cast<uint64_t>(notice.completion.status));
  if (notice.kind == Kind::kSrqEvent) {
    if (trace_.printing()) trace_.say("host %u  SRQ limit event", host);
    const auto owner = srq_owners_.find(owner_key(host, notice.srq.value));
    SIM_REQUIRE(owner != srq_owners_.end(), "an event for an unknown SRQ");
    owner->second->on_limit();
    return;
  }
  const auto owner = owners_.find(owner_key(host, notice.qpn.value));
  SIM_REQUIRE(owner != owners_.end(),
              "a completion or event for an unknown queue pair 0x%06x on host %u", notice.qpn.value,
              host);
  const auto [actor, end] = owner->second;
  if (notice.kind == Kind::kQpEvent) {
    if (trace_.printing()) {
      trace_.say("host %u  qp 0x%06x event %u", host, notice.qpn.value,
                 static_cast<unsigned>(notice.event));
    }
    actor->on_event(end, notice.event);
    return;
  }
  if (trace_.printing()) {
    trace_.say("host %u  qp 0x%06x %s wr 0x%llx: %s, %u bytes", host, notice.qpn.value,
               notice.kind == Kind::kSendDone ? "send done" : "receive done",
               static_cast<unsigned long long>(notice.completion.wr_id),
               transport::to_string(notice.completion.status), notice.completion.byte_len);
  }
  if (notice.kind == Kind::kSendDone) {
    actor->on_send_done(end, notice.completion);
  } else {
    actor->on_receive_done(end, notice.completion);
  }
}

void World::dispatch() {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i].node->has_notices()) continue;
      again = true;
      for (const link::Notice& notice : hosts_[i].node->take_notices()) hand_over(i, notice);
    }
  }
}

Time World::next_moment() const {
  Time moment = network_->next_arrival();
  for (const Host& host : hosts_) moment = std::min(moment, host.node->next_event());
  if (!timers_.empty()) moment = std::min(moment, timers_.front().when);
  return moment;
}

void World::step(Time moment) {
  now_ = std::max(now_, moment);
  trace_.set_time(now_);
  for (const Host& host : hosts_) host.node->set_time(now_);
  network_->deliver_due(now_);
  for (const Host& host : hosts_) {
    if (host.node->next_event() <= now_) host.node->run(now_);
  }
  dispatch();
  if (!timers_.empty() && timers_.front().when <= now_) {
    std::pop_heap(timers_.begin(), timers_.end());
    const Timer timer = std::move(timers_.back());
    timers_.pop_back();
    timer.action();
    dispatch();
  }
}

bool World::run(Time limit, const std::function<bool()>& done) {
  uint64_t steps_at_moment = 0;
  Time last = now_;
  while (!done()) {
    const Time moment = next_moment();
    if (moment > limit || moment == kNever) return false;
    step(moment);
    steps_at_moment = now_ == last ? steps_at_moment + 1 : 0;
    last = now_;
    SIM_REQUIRE(steps_at_moment < kMaxStepsAtOneMoment, "a host is busy without end");
  }
  return true;
}

void World::strike(uint32_t host, std::vector<uint8_t> frame) {
  trace_.mix(0x200, host, frame.size());
  if (trace_.printing()) trace_.say("attacker -> host %u  %s", host, frame_in_words(frame).c_str());
  hosts_[host].node->handle_now(frame, now_);
  dispatch();
}

bool World::silent() const {
  if (network_->next_arrival() != kNever) return false;
  for (const Host& host : hosts_) {
    if (host.node->next_event() != kNever) return false;
  }
  return true;
}

}  // namespace verbena::sim
