// SPDX-License-Identifier: Apache-2.0
// What is one for the process, and what becomes of it in a child of fork(): the parent's other
// threads are not there to let go of a lock, nor to finish what they were changing. So nothing that
// was made before is touched: what the library needs it makes anew, and what the program has from
// before is refused (is_ours).
//
// No lock is taken around fork(), since none could be in the right order: the device's handlers
// take its lock, under which the sink takes the mailbox's mutex, and which of two libraries'
// handlers come first is the program's doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace verbena::rdmacm {

// How many times this process's line has forked.
[[nodiscard]] uint32_t generation();

// The only T of this process. Never destroyed: programs end with threads in here.
template <typename T>
[[nodiscard]] T& only() {
  struct Dated {
    uint32_t generation;
    T value{};
  };
  // Publishes what it points to.
  static constinit std::atomic<Dated*> current{nullptr};
  Dated* made = current.load(std::memory_order_acquire);
  while (made == nullptr || made->generation != generation()) {
    std::unique_ptr<Dated> fresh(new Dated{.generation = generation()});
    if (current.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel)) {
      made = fresh.release();
    }
  }
  return made->value;
}

// A base of what programs hold.
class ProcessOwned {
 public:
  [[nodiscard]] bool is_ours() const { return generation_ == generation(); }

 private:
  uint32_t generation_ = generation();
};

}  // namespace verbena::rdmacm
