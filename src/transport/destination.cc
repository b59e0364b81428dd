// SPDX-License-Identifier: Apache-2.0
#include "transport/destination.h"

#include <algorithm>

#include "transport/queue_pair.h"

namespace verbena::transport {

void WaitingLine::push_back(QueuePair& qp) {
  qp.flow.next_waiting = nullptr;
  (last_ == nullptr ? first_ : last_->flow.next_waiting) = &qp;
  last_ = &qp;
}

void WaitingLine::push_front(QueuePair& qp) {
  qp.flow.next_waiting = first_;
  first_ = &qp;
  if (last_ == nullptr) last_ = &qp;
}

QueuePair* WaitingLine::pop_front() {
  QueuePair* const qp = first_;
  if (qp == nullptr) return nullptr;
  first_ = qp->flow.next_waiting;
  if (first_ == nullptr) last_ = nullptr;
  return qp;
}

void WaitingLine::remove(QueuePair& qp) {
  QueuePair* before = nullptr;
  for (QueuePair* at = first_; at != nullptr; before = at, at = at->flow.next_waiting) {
    if (at != &qp) continue;
    (before == nullptr ? first_ : before->flow.next_waiting) = at->flow.next_waiting;
    if (last_ == &qp) last_ = before;
    return;
  }
}

Destination& Destinations::join(const wire::Gid& address, QueuePair& qp,
                                const CongestionWindow& initial) {
  std::unique_ptr<Destination>& place = all_[address];
  if (place == nullptr) place = std::make_unique<Destination>(address, initial);
  place->users.push_back(&qp);
  return *place;
}

Destination* Destinations::find(const wire::Gid& address) const {
  const auto place = all_.find(address);
  return place == all_.end() ? nullptr : place->second.get();
}

void Destinations::leave(Destination& destination, QueuePair& qp) {
  std::erase(destination.users, &qp);
  if (!destination.users.empty()) return;
  timers_.remove(destination);
  const wire::Gid address = destination.address;
  all_.erase(address);
}

}  // namespace verbena::transport
