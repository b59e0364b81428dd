// SPDX-License-Identifier: Apache-2.0
#include "transport/destination.h"

#include "transport/queue_pair.h"

namespace verbena::transport {

void WaitingLine::push_back(QueuePair& qp) {
  qp.flow.previous_waiting = last_;
  qp.flow.next_waiting = nullptr;
  (last_ == nullptr ? first_ : last_->flow.next_waiting) = &qp;
  last_ = &qp;
}

void WaitingLine::push_front(QueuePair& qp) {
  qp.flow.previous_waiting = nullptr;
  qp.flow.next_waiting = first_;
  (first_ == nullptr ? last_ : first_->flow.previous_waiting) = &qp;
  first_ = &qp;
}

QueuePair* WaitingLine::pop_front() {
  QueuePair* const qp = first_;
  if (qp != nullptr) remove(*qp);
  return qp;
}

void WaitingLine::remove(QueuePair& qp) {
  QueuePair* const before = qp.flow.previous_waiting;
  QueuePair* const behind = qp.flow.next_waiting;
  (before == nullptr ? first_ : before->flow.next_waiting) = behind;
  (behind == nullptr ? last_ : behind->flow.previous_waiting) = before;
}

Destination& Destinations::join(const wire::Gid& address, const CongestionWindow& initial) {
  std::unique_ptr<Destination>& place = all_[address];
  if (place == nullptr) place = std::make_unique<Destination>(address, initial);
  ++place->users;
  return *place;
}

Destination* Destinations::find(const wire::Gid& address) const {
  const auto place = all_.find(address);
  return place == all_.end() ? nullptr : place->second.get();
}

void Destinations::leave(Destination& destination) {
  if (--destination.users != 0) return;
  timers_.remove(destination);
  const wire::Gid address = destination.address;
  all_.erase(address);
}

}  // namespace verbena::transport
