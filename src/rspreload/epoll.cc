// SPDX-License-Identifier: Apache-2.0
// The kernel's instance has the kernel's descriptors; the rsockets of one are kept here, and
// epoll_wait() polls both.
//
// Edge-triggered: what was told is told again when the program has used the rsocket since. The
// kernel would also tell of more data before the program has read what it was told of.
#include "rspreload/epoll.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/c_interface.h"
#include "base/mutex.h"
#include "base/next_function.h"
#include "rspreload/epoll_instance.h"
#include "rspreload/table.h"

namespace verbena::rspreload {
namespace {

using Clock = std::chrono::steady_clock;

// poll() and epoll have the same bits.
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
              EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);
constexpr uint32_t kAlways = EPOLLERR | EPOLLHUP;
constexpr uint32_t kPolled =
    EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLRDNORM | EPOLLWRNORM | kAlways;

using Instances = std::map<int, std::shared_ptr<Instance>>;

// Of one process: a child of fork() begins anew, and leaves its parent's alone.
struct State {
  pid_t owner = ::getpid();
  Mutex mutex;
  Instances instances VERBENA_GUARDED_BY(mutex);

  [[nodiscard]] Instance& at(int fd) VERBENA_REQUIRES(mutex) {
    std::shared_ptr<Instance>& place = instances[fd];
    if (place == nullptr) place = std::make_shared<Instance>(fd);
    return *place;
  }
};
constinit std::atomic<State*> state{nullptr};

// nullptr if nothing was ever watched in this process.
[[nodiscard]] State* current() {
  State* const found = state.load(std::memory_order_acquire);
  return found != nullptr && found->owner == ::getpid() ? found : nullptr;
}

[[nodiscard]] State& current_or_new() {
  if (State* const found = current()) return *found;
  State* before = state.load(std::memory_order_acquire);
  auto* const made = new State;
  if (state.compare_exchange_strong(before, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *state.load(std::memory_order_acquire);
}

[[nodiscard]] int change(int instance, int operation, int fd, const Entry& entry,
                         const epoll_event* asked) {
  State& all = current_or_new();
  const MutexLock lock(all.mutex);
  Instance& changed = all.at(instance);
  std::vector<Watched>& watched = changed.watched;
  const auto place = std::ranges::find(watched, fd, &Watched::fd);
  const bool known = place != watched.end() && place->entry == &entry;
  if (operation == EPOLL_CTL_DEL) {
    if (!known) return ENOENT;
    watched.erase(place);
    return 0;
  }
  if (asked == nullptr) return EFAULT;
  if (operation == EPOLL_CTL_ADD ? known : !known) {
    return operation == EPOLL_CTL_ADD ? EEXIST : ENOENT;
  }
  if (place != watched.end()) watched.erase(place);
  watched.push_back({.fd = fd, .entry = &entry, .asked = *asked});
  changed.ring();
  return 0;
}

// A thread in epoll_wait().
class Waiter {
 public:
  explicit Waiter(int fd) : all_(current_or_new()) {
    const MutexLock lock(all_.mutex);
    (void)all_.at(fd);
    instance_ = all_.instances[fd];
    entered_ = instance_->enter();
  }
  ~Waiter() {
    const int error = errno;
    {
      const MutexLock lock(all_.mutex);
      instance_->leave(entered_);
    }
    instance_.reset();
    errno = error;
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  [[nodiscard]] Mutex& mutex() const VERBENA_RETURN_CAPABILITY(all_.mutex) { return all_.mutex; }
  [[nodiscard]] std::vector<Watched>& watched() const VERBENA_REQUIRES(all_.mutex) {
    return instance_->watched;
  }

 private:
  State& all_;
  std::shared_ptr<Instance> instance_ VERBENA_GUARDED_BY(all_.mutex);
  uint32_t entered_;
};

// One look at an instance's rsockets, with what they are asked for.
class Look {
 public:
  // False if there are none.
  [[nodiscard]] bool gather(int instance, const Waiter& waiter) {
    asked_.assign(1, {.fd = instance, .events = POLLIN, .revents = 0});
    const MutexLock lock(waiter.mutex());
    std::erase_if(waiter.watched(), [&](Watched& one) {
      HeldEntry entry = find(one.fd);
      if (entry.get() != one.entry || entry->socket() < 0) return true;
      const bool on_edges = (one.asked.events & EPOLLET) != 0 && one.told != 0;
      if (on_edges) entry->mute();  // before its uses are looked at: used()
      const uint32_t told = on_edges && one.uses == entry->uses() ? one.told : 0;
      const uint32_t wanted = one.asked.events & kPolled & ~told;
      const bool left_out = one.disarmed || (told & kAlways) != 0;
      asked_.push_back({.fd = left_out ? -1 : entry->socket(),
                        .events = static_cast<short>(wanted),
                        .revents = 0});
      held_.push_back(std::move(entry));
      fds_.push_back(one.fd);
      return false;
    });
    return !held_.empty();
  }

  [[nodiscard]] int poll(int patience_ms) {
    return rpoll(asked_.data(), asked_.size(), patience_ms);
  }
  [[nodiscard]] bool has_rsockets() const { return !held_.empty(); }
  [[nodiscard]] bool kernels_are_ready() const { return asked_.front().revents != 0; }

  // What the rsockets have; how many.
  [[nodiscard]] size_t tell(const Waiter& waiter, std::span<epoll_event> to) {
    const MutexLock lock(waiter.mutex());
    std::vector<Watched>& watched = waiter.watched();
    size_t told = 0;
    for (size_t i = 0; i < held_.size() && told < to.size(); ++i) {
      auto ready = static_cast<uint32_t>(static_cast<uint16_t>(asked_[i + 1].revents));
      if (ready == 0) continue;
      const auto place = std::ranges::find(watched, fds_[i], &Watched::fd);
      if (place == watched.end() || place->entry != held_[i].get()) continue;
      // Another thread that saw the same may have told it.
      if (place->disarmed) continue;
      const uint32_t uses = held_[i]->uses();
      const uint32_t told_before = place->uses == uses ? place->told : 0;
      if ((place->asked.events & EPOLLET) != 0) ready &= ~told_before;
      if (ready == 0) continue;
      to[told++] = {.events = ready, .data = place->asked.data};
      if ((place->asked.events & EPOLLONESHOT) != 0) place->disarmed = true;
      place->told = told_before | ready;
      place->uses = uses;
    }
    return told;
  }

 private:
  std::vector<pollfd> asked_;  // the kernel's instance first
  std::vector<HeldEntry> held_;
  std::vector<int> fds_;
};

// How many of the kernel's are the program's: they come first.
[[nodiscard]] int without_bell(epoll_event* events, int count) {
  epoll_event* const end = std::remove_if(events, events + std::max(count, 0), Instance::is_bell);
  return count < 0 ? count : static_cast<int>(end - events);
}

[[nodiscard]] int wait_for(int instance, epoll_event* events, int most, int timeout_ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  for (;;) {
    const Waiter waiter(instance);
    Look look;
    int patience_ms = timeout_ms;
    if (timeout_ms > 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      patience_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
    }
    int ready = 0;
    if (look.gather(instance, waiter)) {
      if (look.poll(patience_ms) < 0) return -1;
      ready = static_cast<int>(look.tell(waiter, {events, static_cast<size_t>(most)}));
      patience_ms = 0;
    }
    if (!look.has_rsockets() || (look.kernels_are_ready() && ready < most)) {
      epoll_event* const room = events + ready;
      const int count = NEXT(epoll_wait)(instance, room, most - ready, patience_ms);
      const int kernels = without_bell(room, count);
      if (kernels < 0 && ready == 0) return kernels;
      ready += std::max(kernels, 0);
    }
    if (ready != 0 || (timeout_ms >= 0 && Clock::now() >= until)) return ready;
  }
}

// As epoll_wait() with another mask of signals; nullptr: its own.
[[nodiscard]] int wait_masked(int instance, epoll_event* events, int most, int timeout_ms,
                              const sigset_t* mask) {
  sigset_t before{};
  if (mask != nullptr) (void)::pthread_sigmask(SIG_SETMASK, mask, &before);
  const int outcome = epoll_wait(instance, events, most, timeout_ms);
  if (mask != nullptr) (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return outcome;
}

}  // namespace

void forget_epoll(unsigned first, unsigned last) {
  State* const all = current();
  if (all == nullptr) return;
  const int error = errno;
  const auto is_closed = [&](int fd) {
    return static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last;
  };
  const MutexLock lock(all->mutex);
  std::erase_if(all->instances, [&](const auto& one) { return is_closed(one.first); });
  for (const auto& [fd, instance] : all->instances) {
    // Who waits holds the rsockets: they are closed when it looks again.
    if (std::erase_if(instance->watched, [&](const Watched& one) { return is_closed(one.fd); })) {
      instance->ring();
    }
  }
  errno = error;
}

void used(Entry& entry) {
  if (!entry.count_use()) return;
  State* const all = current();
  if (all == nullptr) return;
  const int error = errno;
  const MutexLock lock(all->mutex);
  for (const auto& [fd, instance] : all->instances) {
    const auto place = std::ranges::find(instance->watched, &entry, &Watched::entry);
    if (place != instance->watched.end()) instance->ring();
  }
  errno = error;
}

}  // namespace verbena::rspreload

using namespace verbena::rspreload;

VERBENA_EXPORT int epoll_ctl(int instance, int operation, int fd, epoll_event* event) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(epoll_ctl)(instance, operation, fd, event);
  int error = ENOMEM;
  try {
    error = change(instance, operation, fd, *entry, event);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == 0) return 0;
  errno = error;
  return -1;
}

VERBENA_EXPORT int epoll_wait(int instance, epoll_event* events, int most, int timeout_ms) {
  if (events == nullptr || most <= 0) return NEXT(epoll_wait)(instance, events, most, timeout_ms);
  try {
    return wait_for(instance, events, most, timeout_ms);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
  }
}

VERBENA_EXPORT int epoll_pwait(int instance, epoll_event* events, int most, int timeout_ms,
                               const sigset_t* mask) {
  return wait_masked(instance, events, most, timeout_ms, mask);
}

VERBENA_EXPORT int epoll_pwait2(int instance, epoll_event* events, int most,
                                const timespec* timeout, const sigset_t* mask) {
  int timeout_ms = -1;
  if (timeout != nullptr) {
    const auto whole = std::chrono::seconds(std::clamp<time_t>(timeout->tv_sec, 0, INT_MAX)) +
                       std::chrono::nanoseconds(timeout->tv_nsec);
    timeout_ms = static_cast<int>(
        std::min<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(whole).count(), INT_MAX));
  }
  return wait_masked(instance, events, most, timeout_ms, mask);
}
