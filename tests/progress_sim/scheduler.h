// SPDX-License-Identifier: Apache-2.0
// Threads under a seed. Each simulated thread is a fiber of the one real thread; at every access to
// an atomic, every mutex and every system call (hooks.cc) the seed says whether another goes on
// instead. Time is simulated as well: it passes with each step, and jumps when everybody sleeps.
//
// Atomic stores other than sequentially consistent ones wait in a buffer of their thread for a
// while, as they do in a core: others see them later. In half of the worlds they see them in order,
// as of x86-64; in the others relaxed ones overtake each other and those before them, and only a
// release comes after all before it, as of arm64. A full fence, a read-modify-write, a mutex and a
// system call empty the buffer. Loads are never early, and plain stores never late.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ucontext.h>

#include "base/random.h"
#include "base/time.h"

namespace verbena::progress_sim {

class Scheduler {
 public:
  explicit Scheduler(uint64_t seed);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  [[nodiscard]] SeededRandom& random() { return random_; }
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] uint64_t steps() const { return steps_; }

  // A new thread of this process.
  void spawn(uint32_t process, std::string name, std::function<void()> body);
  // Runs until no thread can go on any more, or `done`, or so many steps.
  void run(uint64_t most_steps, const std::function<bool()>& done);
  // Whether a thread runs, or will when it is later.
  [[nodiscard]] bool can_go_on() const;
  // Threads that have not returned and are not killed, for a message.
  [[nodiscard]] std::string who_sleeps() const;

  // Whether one of them is; nobody else runs meanwhile.
  [[nodiscard]] static bool is_readable(std::span<const int> fds);

  // --- faults
  void kill(uint32_t process);
  // In a forked child: the thread that runs is the only one.
  void kill_others();
  void stop(uint32_t process);
  void go_on(uint32_t process);

  // --- called by the thread that runs
  // Another may run here.
  void point();
  // All that this thread has stored is seen by others.
  void drain();
  // Sleeps until one of the descriptors is readable, or then. True: one is.
  bool sleep(std::span<const int> fds, Time until);
  void sleep_until(Time until) { (void)sleep({}, until); }
  // Whether a mutex in there is held.
  [[nodiscard]] bool is_locked(const void* object, size_t bytes) const;
  void lock(void* mutex);
  [[nodiscard]] bool try_lock(void* mutex);
  void unlock(void* mutex);
  // A robust mutex in memory that processes share, each at an address of its own: whose it is lies
  // in it. 0, EBUSY, or EOWNERDEAD: it is ours, and its last owner died.
  [[nodiscard]] int try_lock_robust(int& owner);
  void unlock_robust(int& owner);
  // A name for it that no other thread has.
  [[nodiscard]] const void* thread() const { return running_; }
  // The process that it is of.
  [[nodiscard]] uint32_t process() const { return running_->process; }
  // Something was written to a descriptor: who sleeps on it looks.
  void on_write() { look_again_ = true; }
  // This eventfd becomes readable then; kNever: it does not.
  void set_timer(int fd, Time at);

  // --- the store buffer of the thread that runs
  enum class Order : uint8_t { kRelaxed, kRelease };
  void store(void* at, uint64_t value, uint32_t bytes, Order order);
  // What the thread itself sees.
  [[nodiscard]] uint64_t load(const void* at, uint32_t bytes);

  // The one whose thread runs now; nullptr: none, and everything is as usual.
  [[nodiscard]] static Scheduler* current() { return current_; }
  // While there is one, the thread that runs looks at memory as it is and no other goes on.
  class Alone {
   public:
    Alone() : scheduler_(std::exchange(current_, nullptr)) {}
    ~Alone() { current_ = scheduler_; }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Scheduler* scheduler_;
  };

 private:
  enum class State : uint8_t { kReady, kLocking, kSleeping, kDone };
  struct Store {
    void* at;
    uint64_t value;
    uint32_t bytes;
    Order order;
  };
  struct Fiber {
    std::string name;
    uint32_t process = 0;
    std::function<void()> body;
    State state = State::kReady;
    bool killed = false;
    bool stopped = false;
    void* mutex = nullptr;  // waited for
    std::vector<int> fds;   // slept on
    bool ready = false;     // one of them
    Time until = kNever;
    std::deque<Store> stores;
    ucontext_t context{};
    void* stack = nullptr;
  };

  static void enter();
  void switch_out();
  void look();
  [[nodiscard]] bool can_run(const Fiber& fiber) const;
  [[nodiscard]] Fiber* pick();
  [[nodiscard]] bool is_held(const void* mutex) const;
  void fire_timers();
  // One of those that may go next.
  void drain_one(Fiber& fiber);
  static void drain(Fiber& fiber);
  static void write_out(const Store& store);

  static inline Scheduler* current_ = nullptr;
  SeededRandom random_;
  Time now_;
  uint64_t steps_ = 0;
  uint32_t stay_ppm_;  // that the same thread goes on
  uint32_t keeps_;     // a store waits for so many steps, about
  bool in_order_;      // stores become visible
  bool look_again_ = false;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* running_ = nullptr;
  std::vector<void*> held_;  // mutexes
  std::vector<uint32_t> dead_;
  std::map<int, Time> timers_;
  ucontext_t main_{};
};

}  // namespace verbena::progress_sim
