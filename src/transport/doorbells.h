// SPDX-License-Identifier: Apache-2.0
// Queue pairs to which something was posted by threads that did not have the endpoint (poster.h).
// Any thread rings; who has the endpoint answers.
#pragma once

#include <atomic>

namespace verbena::transport {

struct QueuePair;

// A queue pair's own; it is in the list while `rung`.
struct Doorbell {
  std::atomic<bool> rung{false};
  QueuePair* next = nullptr;
};

class Doorbells {
 public:
  // Any thread. What it appended before is seen by who answers.
  void ring(QueuePair& qp);
  [[nodiscard]] bool any() const { return first_.load(std::memory_order_relaxed) != nullptr; }

  // With the endpoint. Calls answer(QueuePair&) for each, the first that was rung first; one that
  // is rung meanwhile comes again with the next call.
  template <typename Answer>
  void answer_all(Answer&& answer) {
    for (QueuePair* qp = take(); qp != nullptr;) {
      QueuePair* const next = pop(*qp);
      answer(*qp);
      qp = next;
    }
  }
  // The queue pair goes away: nobody rings for it any more.
  void forget(QueuePair& gone);

 private:
  // All, in the order in which they were rung. Acquires what ring() released.
  [[nodiscard]] QueuePair* take();
  // The one behind it. From here on it may be rung anew.
  [[nodiscard]] static QueuePair* pop(QueuePair& qp);
  void push(QueuePair& qp);

  std::atomic<QueuePair*> first_{nullptr};
};

}  // namespace verbena::transport
