// SPDX-License-Identifier: Apache-2.0
#include "transport/doorbells.h"

#include <utility>

#include "transport/queue_pair.h"

namespace verbena::transport {

void Doorbells::ring(QueuePair& qp) {
  // Acquired and released by pop() as well: who finds it rung already has appended before it is
  // answered.
  if (!qp.doorbell.rung.exchange(true, std::memory_order_acq_rel)) push(qp);
}

void Doorbells::push(QueuePair& qp) {
  QueuePair* first = first_.load(std::memory_order_relaxed);
  do {
    qp.doorbell.next = first;
  } while (!first_.compare_exchange_weak(first, &qp, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
}

QueuePair* Doorbells::take() {
  QueuePair* newest = first_.exchange(nullptr, std::memory_order_acq_rel);
  QueuePair* first = nullptr;
  while (newest != nullptr) {
    QueuePair* const before = std::exchange(newest->doorbell.next, first);
    first = std::exchange(newest, before);
  }
  return first;
}

QueuePair* Doorbells::pop(QueuePair& qp) {
  QueuePair* const next = qp.doorbell.next;
  qp.doorbell.rung.exchange(false, std::memory_order_acq_rel);
  return next;
}

void Doorbells::forget(QueuePair& gone) {
  for (QueuePair* qp = take(); qp != nullptr;) {
    QueuePair* const next = qp->doorbell.next;
    if (qp != &gone) push(*qp);
    qp = next;
  }
}

}  // namespace verbena::transport
