// SPDX-License-Identifier: Apache-2.0
// Whose turn it is to drive: one of those who wait, or the client's own thread.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include <sys/epoll.h>

#include "client/driver.h"

namespace verbena::client {
namespace {

// Threads of this process that look for answers and do not sleep: more than a share of the cores
// would only be in each other's way, and in the server's if it is on this host.
std::atomic<uint32_t> spinning{0};
class Spin {
 public:
  explicit Spin(bool wanted) : may_(wanted && enter()) {}
  Spin(const Spin&) = delete;
  Spin& operator=(const Spin&) = delete;
  ~Spin() {
    if (may_) spinning.fetch_sub(1, std::memory_order_relaxed);
  }
  explicit operator bool() const { return may_; }

 private:
  static bool enter() {
    if (spinning.fetch_add(1, std::memory_order_relaxed) < limit()) return true;
    spinning.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  static uint32_t limit() {
    static const uint32_t cores = std::thread::hardware_concurrency();
    return std::max(1U, cores / 2);
  }
  const bool may_;
};

// Whose answers this thread is telling of, if it is.
thread_local const Driver* telling = nullptr;

// Without requests nothing is urgent.
constexpr Duration kIdleLook = 100 * kMillisecond;

}  // namespace

void Driver::after_submit() {
  if (telling == this) return;  // tell() goes on with it
  carry_out_actions();
  send_messages();
  if (waiters_ == 0) leave_to_thread();
  tell();
}

void Driver::enter() {
  const MutexLock lock(mutex_);
  ++waiters_;
}

// One of those who wait leads: it drives for all of them, until its own answer is there.
void Driver::wait(const bool& done) {
  const MutexLock lock(mutex_);
  while (!done) {
    if (leader_) {
      changed_.wait(mutex_);
      continue;
    }
    leader_ = true;
    lead(done);
    leader_ = false;
  }
  --waiters_;
  if (waiters_ > 0) {
    if (!leader_) changed_.notify_all();
  } else {
    leave_to_thread();
    tell();
  }
}

void Driver::lead(const bool& done) {
  const Spin spin(busy_poll_ > 0);
  Time worked = read_clock();
  while (!done) {
    if (drive()) worked = now_;
    tell();
    if (done) return;
    if (spin && now_ - worked < busy_poll_) {
      const MutexUnlock unlocked(mutex_);
      std::this_thread::yield();  // the server may need this core
      continue;
    }
    fabric_->arm();
    armed_ = true;
    if (drive()) {
      worked = now_;
    } else {
      leader_asleep_ = true;
      static_cast<void>(sleep());
      leader_asleep_ = false;
    }
    armed_ = false;
  }
}

void Driver::wake() const {
  const uint64_t one = 1;
  static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

void Driver::leave() {
  armed_ = expects_messages();
  if (!armed_) return;
  fabric_->arm();
  static_cast<void>(drive());
}

void Driver::tell() {
  if (finished_.empty()) return;
  while (!finished_.empty()) {
    std::vector<Finished> finished = std::move(finished_);
    finished_.clear();
    {
      const MutexUnlock unlocked(mutex_);
      const Driver* const before = std::exchange(telling, this);
      for (Finished& each : finished) each.done(std::move(each.completion));
      telling = before;
    }
    carry_out_actions();
  }
  // What they have asked for goes together.
  send_messages();
}

// Beside threads that wait it keeps away from the fabric, which wakes everybody who sleeps on it.
void Driver::work() {
  const MutexLock lock(mutex_);
  while (!stopping_) {
    thread_ = Thread::kAwake;
    if (waiters_ == 0) work_awhile();
    if (stopping_) return;
    if (waiters_ > 0) {
      thread_ = Thread::kAside;
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kIdleLook);
      while (thread_ == Thread::kAside && thread_turn_.wait_until(mutex_, until)) {}
    } else {
      thread_ = Thread::kAsleep;
      if (sleep() && leader_asleep_) wake();
    }
  }
}

// While nobody waits: until there is nothing to do.
void Driver::work_awhile() {
  const Spin spin(busy_poll_ > 0);
  Time worked = 0;
  for (;;) {
    armed_ = false;
    if (drive()) worked = now_;
    tell();
    if (waiters_ > 0 || stopping_) return;
    // Others may make more requests meanwhile.
    if (spin && expects_messages() && now_ - worked < busy_poll_) {
      const MutexUnlock unlocked(mutex_);
      std::this_thread::yield();
      continue;
    }
    leave();
    if (finished_.empty()) return;
  }
}

// Nobody waits: the thread is told, or woken when there is more to do.
void Driver::leave_to_thread() {
  if (thread_ == Thread::kAside && expects_messages()) {
    thread_ = Thread::kAwake;
    thread_turn_.notify_one();
  } else if (thread_ == Thread::kAsleep && !armed_) {
    leave();
  }
}

// Whether something has happened.
bool Driver::sleep() {
  set_epoll();
  const Time next = std::min(machine_->next_time(), now_ + kIdleLook);
  const Duration span = std::max<Duration>(next - now_, 0);
  std::array<epoll_event, 4> events;
  int got = 0;
  {
    const MutexUnlock unlocked(mutex_);
    got = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                     static_cast<int>((span + kMillisecond - 1) / kMillisecond));
  }
  for (int i = 0; i < got; ++i) {
    const int fd = events[static_cast<size_t>(i)].data.fd;
    uint64_t count = 0;
    if (fd == wake_.get()) static_cast<void>(!read(fd, &count, sizeof count));
    if (fd == side_.fd()) side_at_ = 0;
    if (fd == fabric_->fd()) fabric_->woken();
  }
  return got > 0;
}

// What is waited for of the side channel.
void Driver::set_epoll() {
  const int fd = side_.fd();
  const std::pair wanted(side_attempt_, side_.wants_to_write());
  if (fd >= 0 && wanted == side_watched_) return;
  side_watched_ = wanted;
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (side_.wants_to_write()) event.events |= EPOLLOUT;
  // A socket that was closed has left by itself, and another may have its number.
  if (fd >= 0 && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  }
}

}  // namespace verbena::client
