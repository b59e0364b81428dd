// SPDX-License-Identifier: Apache-2.0
// The kernel's instance has the kernel's descriptors; the rsockets of one are kept here, and
// epoll_wait() polls both.
//
// Edge-triggered: what was told is told again when the program has used the rsocket since. So it
// hears at least as often as the kernel would tell it.
#include "rspreload/epoll.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/c_interface.h"
#include "base/next_function.h"
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

struct Watched {
  int fd;
  const Entry* entry;  // to be compared only: the descriptor may be another's by now
  epoll_event asked;
  bool disarmed = false;  // EPOLLONESHOT
  uint32_t told = 0;      // EPOLLET
  uint32_t uses = 0;      // when it was told
};

using Instances = std::map<int, std::vector<Watched>>;

// Of one process: a child of fork() begins anew, and leaves its parent's alone.
struct State {
  pid_t owner = ::getpid();
  std::mutex mutex;
  Instances instances;
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
  const std::lock_guard lock(all.mutex);
  std::vector<Watched>& watched = all.instances[instance];
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
  return 0;
}

// One look at an instance's rsockets, with what they are asked for.
class Look {
 public:
  // False if there are none.
  [[nodiscard]] bool gather(int instance) {
    asked_.assign(1, {.fd = instance, .events = POLLIN, .revents = 0});
    State* const all = current();
    if (all == nullptr) return false;
    const std::lock_guard lock(all->mutex);
    const auto found = all->instances.find(instance);
    if (found == all->instances.end()) return false;
    std::erase_if(found->second, [&](Watched& one) {
      HeldEntry entry = find(one.fd);
      if (entry.get() != one.entry || entry->socket() < 0) return true;
      const bool quiet = (one.asked.events & EPOLLET) != 0 && one.uses == entry->uses();
      const uint32_t told = quiet ? one.told : 0;
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
  [[nodiscard]] bool kernels_are_ready() const { return asked_.front().revents != 0; }

  // What the rsockets have; how many.
  [[nodiscard]] size_t tell(int instance, std::span<epoll_event> to) {
    State* const all = current();
    if (all == nullptr) return 0;
    const std::lock_guard lock(all->mutex);
    const auto found = all->instances.find(instance);
    if (found == all->instances.end()) return 0;
    size_t told = 0;
    for (size_t i = 0; i < held_.size() && told < to.size(); ++i) {
      const auto ready = static_cast<uint32_t>(static_cast<uint16_t>(asked_[i + 1].revents));
      if (ready == 0) continue;
      const auto place = std::ranges::find(found->second, fds_[i], &Watched::fd);
      if (place == found->second.end() || place->entry != held_[i].get()) continue;
      to[told++] = {.events = ready, .data = place->asked.data};
      if ((place->asked.events & EPOLLONESHOT) != 0) place->disarmed = true;
      const uint32_t uses = held_[i]->uses();
      place->told = place->uses == uses ? place->told | ready : ready;
      place->uses = uses;
    }
    return told;
  }

 private:
  std::vector<pollfd> asked_;  // the kernel's instance first
  std::vector<HeldEntry> held_;
  std::vector<int> fds_;
};

[[nodiscard]] int wait_for(int instance, epoll_event* events, int most, int timeout_ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  for (;;) {
    Look look;
    int patience_ms = timeout_ms;
    if (timeout_ms > 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      patience_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
    }
    if (!look.gather(instance)) return NEXT(epoll_wait)(instance, events, most, patience_ms);
    if (look.poll(patience_ms) < 0) return -1;
    const std::span<epoll_event> room(events, static_cast<size_t>(most));
    const auto told = static_cast<int>(look.tell(instance, room));
    int kernels = 0;
    if (look.kernels_are_ready() && told < most) {
      kernels = NEXT(epoll_wait)(instance, events + told, most - told, 0);
      if (kernels < 0 && told == 0) return kernels;
    }
    const int ready = told + std::max(kernels, 0);
    if (ready != 0 || (timeout_ms >= 0 && Clock::now() >= until)) return ready;
  }
}

}  // namespace

void forget_epoll(int fd) {
  State* const all = current();
  if (all == nullptr) return;
  const std::lock_guard lock(all->mutex);
  all->instances.erase(fd);
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
  if (current() == nullptr || events == nullptr || most <= 0) {
    return NEXT(epoll_wait)(instance, events, most, timeout_ms);
  }
  try {
    return wait_for(instance, events, most, timeout_ms);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
  }
}

VERBENA_EXPORT int epoll_pwait(int instance, epoll_event* events, int most, int timeout_ms,
                               const sigset_t* mask) {
  if (current() == nullptr) return NEXT(epoll_pwait)(instance, events, most, timeout_ms, mask);
  sigset_t before{};
  if (mask != nullptr) (void)::pthread_sigmask(SIG_SETMASK, mask, &before);
  const int outcome = epoll_wait(instance, events, most, timeout_ms);
  if (mask != nullptr) (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return outcome;
}
