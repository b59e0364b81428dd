// SPDX-License-Identifier: Apache-2.0
#include "link/simulated_network.h"

#include <algorithm>

namespace verbena::link {

using Kind = FrameEvent::Kind;

PortId SimulatedNetwork::attach(const wire::Gid& address, FrameReceiver& receiver) {
  ports_.push_back({address, &receiver, 0, {}, {}});
  for (Port& port : ports_) {
    port.blocked.resize(ports_.size());
    port.queues.resize(ports_.size());
  }
  return static_cast<PortId>(ports_.size() - 1);
}

const SimulatedNetwork::Port* SimulatedNetwork::find(const wire::Gid& address, PortId& id) const {
  for (id = 0; id < ports_.size(); ++id) {
    if (ports_[id].address == address) return &ports_[id];
  }
  return nullptr;
}

void SimulatedNetwork::tell(Kind kind, Time now, PortId from, PortId to, uint64_t serial,
                            std::span<const uint8_t> bytes) const {
  if (observer_ != nullptr) observer_->on_frame({kind, now, from, to, serial, bytes});
}

void SimulatedNetwork::launch(PortId from, PortId to, uint64_t serial, std::vector<uint8_t> frame,
                              Time arrival) {
  heap_.push_back({arrival, next_order_++, serial, from, to, std::move(frame)});
  std::push_heap(heap_.begin(), heap_.end());
}

void SimulatedNetwork::send(PortId from, const wire::Gid& destination,
                            std::span<const uint8_t> frame, Time now) {
  const uint64_t serial = next_serial_++;
  PortId to = 0;
  const Port* const target = find(destination, to);
  Port& source = ports_[from];
  Time departure = now;
  if (speed_.bits_per_second != 0) {
    const auto bits = static_cast<Duration>(frame.size() * 8);
    departure = std::max(now, source.free_at) +
                bits * kSecond / static_cast<Duration>(speed_.bits_per_second);
    source.free_at = departure;
  }
  tell(Kind::kSent, now, from, to, serial, frame);
  if (target == nullptr) return tell(Kind::kNoPort, now, from, to, serial, frame);
  if (source.blocked[to]) {
    ++blocked_frames_;
    return tell(Kind::kBlocked, now, from, to, serial, frame);
  }
  bool marked = false;
  if (SimulatedQueue* const queue = source.queues[to]) {
    const auto passage = queue->pass(frame.size(), can_be_marked(frame), now);
    if (passage.dropped) return tell(Kind::kOverflowed, now, from, to, serial, frame);
    departure = passage.arrival;
    marked = passage.marked;
  }
  const Fate fate = faults_.judge(frame);
  if (fate.copies == 0) return tell(Kind::kLost, now, from, to, serial, frame);
  if (fate.copies > 1) tell(Kind::kDuplicated, now, from, to, serial, frame);
  for (uint32_t i = 0; i < fate.copies; ++i) {
    std::vector<uint8_t> copy(frame.begin(), frame.end());
    if (marked || (fate.copy[i].marked && can_be_marked(frame))) mark_congestion(copy);
    if (fate.copy[i].corrupted) {
      faults_.corrupt(copy);
      tell(Kind::kCorrupted, now, from, to, serial, copy);
    }
    if (fate.copy[i].wait != 0) tell(Kind::kDelayed, now, from, to, serial, copy);
    launch(from, to, serial, std::move(copy), departure + speed_.delay + fate.copy[i].wait);
  }
}

void SimulatedNetwork::inject(const wire::Gid& destination, std::vector<uint8_t> frame, Time now) {
  PortId to = 0;
  if (find(destination, to) == nullptr) return;
  ports_[to].receiver->on_arrival(std::move(frame), now);
}

bool SimulatedNetwork::has_room(PortId from, Time now) const {
  return ports_[from].free_at - now <= speed_.queue;
}

Time SimulatedNetwork::room_at(PortId from) const { return ports_[from].free_at - speed_.queue; }

void SimulatedNetwork::set_queue(PortId from, PortId to, SimulatedQueue& queue) {
  ports_[from].queues[to] = &queue;
}

void SimulatedNetwork::set_blocked(PortId from, PortId to, bool blocked) {
  ports_[from].blocked[to] = blocked;
}

Time SimulatedNetwork::next_arrival() const {
  return heap_.empty() ? kNever : heap_.front().arrival;
}

void SimulatedNetwork::deliver_due(Time now) {
  while (!heap_.empty() && heap_.front().arrival <= now) {
    std::pop_heap(heap_.begin(), heap_.end());
    InFlight arrived = std::move(heap_.back());
    heap_.pop_back();
    tell(Kind::kArrived, now, arrived.from, arrived.to, arrived.serial, arrived.frame);
    ports_[arrived.to].receiver->on_arrival(std::move(arrived.frame), now);
  }
}

}  // namespace verbena::link
