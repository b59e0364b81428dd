// SPDX-License-Identifier: Apache-2.0
#include "rsocket/socket.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/signals.h"

namespace verbena::rsocket {
namespace {

constexpr int kWithoutBellMs = 100;

}  // namespace

int64_t Socket::map(void*, size_t, int, int64_t) { return -EOPNOTSUPP; }
int Socket::unmap(void*, size_t) { return -EOPNOTSUPP; }
ssize_t Socket::write_mapped(Pieces&, int64_t, int) { return -EOPNOTSUPP; }

bool Socket::is_nonblocking(int flags) const {
  return (flags & MSG_DONTWAIT) != 0 || (flags_.load(std::memory_order_relaxed) & O_NONBLOCK) != 0;
}

std::optional<Clock::time_point> Socket::deadline_of(std::chrono::microseconds most) {
  if (most.count() == 0) return std::nullopt;
  return Clock::now() + most;
}

void Socket::enter() {
  if (!bell_.valid()) bell_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ++sleepers_;
}

void Socket::leave() {
  if (--sleepers_ != 0 || !rung_) return;
  uint64_t count = 0;
  rung_ = ::read(bell_.get(), &count, sizeof count) < 0 && errno != EAGAIN;
}

void Socket::ring() {
  if (sleepers_ == 0 || rung_) return;
  const uint64_t one = 1;
  rung_ = ::write(bell_.get(), &one, sizeof one) == sizeof one;
}

void Socket::begin_sleep(SleepSet& set) {
  const MutexLock lock(mutex_);
  arm();
  enter();
  set = sleep_set();
  set.back() = {.fd = bell_.get(), .events = POLLIN, .revents = 0};
}

void Socket::end_sleep(const SleepSet& set) {
  const MutexLock lock(mutex_);
  leave();
  woken(set);
}

int Socket::sleep(std::optional<Clock::time_point> until) {
  enter();
  SleepSet set = sleep_set();
  set.back() = {.fd = bell_.get(), .events = POLLIN, .revents = 0};
  // Without a bell (too many files are open) it looks now and then.
  int patience_ms = set.back().fd >= 0 ? -1 : kWithoutBellMs;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
    const int64_t most = patience_ms < 0 ? INT_MAX : patience_ms;
    patience_ms = static_cast<int>(std::clamp<int64_t>(left, 0, most));
  }
  int error = 0;
  {
    const MutexUnlock unlocked(mutex_);
    if (::poll(set.data(), set.size(), patience_ms) < 0) error = errno;
  }
  leave();
  if (error != 0) {
    // A call that may take only so long does not go on, as the kernel's do not.
    if (error == EINTR && (until || !signals_restart())) return -EINTR;
    return error == EINTR ? 0 : -error;
  }
  woken(set);
  return 0;
}

}  // namespace verbena::rsocket
