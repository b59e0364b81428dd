// SPDX-License-Identifier: Apache-2.0
// poll() and select(), where rsockets are among the descriptors.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <new>
#include <optional>
#include <vector>

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/select.h>

#include "base/c_interface.h"
#include "base/next_function.h"
#include "rspreload/table.h"

namespace verbena::rspreload {
namespace {

using Clock = std::chrono::steady_clock;

// As long as this, the thread has another mask; nullptr: its own.
class Masked {
 public:
  explicit Masked(const sigset_t* mask) : changed_(mask != nullptr) {
    if (changed_) (void)::pthread_sigmask(SIG_SETMASK, mask, &before_);
  }
  ~Masked() {
    if (changed_) (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  bool changed_;
  sigset_t before_{};
};

[[nodiscard]] bool has_rsockets(const pollfd* fds, nfds_t count) {
  return std::any_of(fds, fds + count, [](const pollfd& one) {
    const HeldEntry entry = find(one.fd);
    return entry && entry->socket() >= 0;
  });
}

// With the rsockets in place of their descriptors, which are held meanwhile.
[[nodiscard]] int poll_with(pollfd* fds, nfds_t count, int timeout_ms) {
  std::vector<HeldEntry> held;
  std::vector<pollfd> asked(fds, fds + count);
  for (pollfd& one : asked) {
    HeldEntry entry = find(one.fd);
    if (!entry || entry->socket() < 0) continue;
    one.fd = entry->socket();
    held.push_back(std::move(entry));
  }
  const int outcome = rpoll(asked.data(), asked.size(), timeout_ms);
  for (nfds_t i = 0; i < count; ++i) fds[i].revents = asked[i].revents;
  return outcome;
}

template <typename Call>
[[nodiscard]] int without_memory_is_an_error(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
  }
}

[[nodiscard]] int milliseconds_of(const timespec* timeout) {
  if (timeout == nullptr) return -1;
  const auto whole = std::chrono::seconds(std::clamp<time_t>(timeout->tv_sec, 0, INT_MAX)) +
                     std::chrono::nanoseconds(timeout->tv_nsec);
  return static_cast<int>(
      std::min<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(whole).count(), INT_MAX));
}

struct Sets {
  fd_set* reads;
  fd_set* writes;
  fd_set* exceptions;
};

[[nodiscard]] bool is_in(const fd_set* set, int fd) { return set != nullptr && FD_ISSET(fd, set); }

[[nodiscard]] std::vector<pollfd> asked_of(int count, const Sets& sets) {
  std::vector<pollfd> asked;
  for (int fd = 0; fd < std::min(count, FD_SETSIZE); ++fd) {
    short events = 0;
    if (is_in(sets.reads, fd)) events |= POLLIN;
    if (is_in(sets.writes, fd)) events |= POLLOUT;
    if (is_in(sets.exceptions, fd)) events |= POLLPRI;
    if (events != 0) asked.push_back({.fd = fd, .events = events, .revents = 0});
  }
  return asked;
}

// As the kernel shows them.
[[nodiscard]] int show(const std::vector<pollfd>& answered, const Sets& sets) {
  constexpr short kReads = POLLIN | POLLRDNORM | POLLHUP | POLLERR;
  constexpr short kWrites = POLLOUT | POLLWRNORM | POLLERR;
  for (const pollfd& one : answered) {
    if ((one.revents & POLLNVAL) == 0) continue;
    errno = EBADF;
    return -1;
  }
  int ready = 0;
  const auto mark = [&](fd_set* set, const pollfd& one, short asked, short wanted) {
    if (set == nullptr) return;
    if ((one.events & asked) != 0 && (one.revents & wanted) != 0) {
      FD_SET(one.fd, set);
      ++ready;
    } else {
      FD_CLR(one.fd, set);
    }
  };
  for (const pollfd& one : answered) {
    mark(sets.reads, one, POLLIN, kReads);
    mark(sets.writes, one, POLLOUT, kWrites);
    mark(sets.exceptions, one, POLLPRI, POLLPRI);
  }
  return ready;
}

[[nodiscard]] int select_with(std::vector<pollfd>& asked, const Sets& sets, int timeout_ms) {
  const int outcome = poll_with(asked.data(), asked.size(), timeout_ms);
  return outcome < 0 ? outcome : show(asked, sets);
}

}  // namespace
}  // namespace verbena::rspreload

using namespace verbena::rspreload;

// What the headers make of calls under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" int __poll_chk(pollfd*, nfds_t, int, size_t);
extern "C" int __ppoll_chk(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  if (!has_rsockets(fds, count)) return NEXT(poll)(fds, count, timeout_ms);
  return without_memory_is_an_error([&] { return poll_with(fds, count, timeout_ms); });
}

VERBENA_EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout_ms, size_t room) {
  if (room / sizeof *fds < count) return NEXT(__poll_chk)(fds, count, timeout_ms, room);
  return poll(fds, count, timeout_ms);
}

VERBENA_EXPORT int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (!has_rsockets(fds, count)) return NEXT(ppoll)(fds, count, timeout, mask);
  const Masked masked(mask);
  return without_memory_is_an_error(
      [&] { return poll_with(fds, count, milliseconds_of(timeout)); });
}

VERBENA_EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout,
                               const sigset_t* mask, size_t room) {
  if (room / sizeof *fds < count) return NEXT(__ppoll_chk)(fds, count, timeout, mask, room);
  return ppoll(fds, count, timeout, mask);
}

VERBENA_EXPORT int select(int count, fd_set* reads, fd_set* writes, fd_set* exceptions,
                          timeval* timeout) {
  return without_memory_is_an_error([&] {
    const Sets sets{.reads = reads, .writes = writes, .exceptions = exceptions};
    std::vector<pollfd> asked = asked_of(count, sets);
    if (!has_rsockets(asked.data(), asked.size())) {
      return NEXT(select)(count, reads, writes, exceptions, timeout);
    }
    if (timeout == nullptr) return select_with(asked, sets, -1);
    const auto until = Clock::now() + std::chrono::seconds(timeout->tv_sec) +
                       std::chrono::microseconds(timeout->tv_usec);
    const timespec limit{.tv_sec = timeout->tv_sec, .tv_nsec = timeout->tv_usec * 1000};
    const int outcome = select_with(asked, sets, milliseconds_of(&limit));
    // What is left of it, as Linux says.
    const auto left =
        std::max(std::chrono::duration_cast<std::chrono::microseconds>(until - Clock::now()),
                 std::chrono::microseconds(0));
    timeout->tv_sec = left.count() / 1'000'000;
    timeout->tv_usec = left.count() % 1'000'000;
    return outcome;
  });
}

VERBENA_EXPORT int pselect(int count, fd_set* reads, fd_set* writes, fd_set* exceptions,
                           const timespec* timeout, const sigset_t* mask) {
  return without_memory_is_an_error([&] {
    const Sets sets{.reads = reads, .writes = writes, .exceptions = exceptions};
    std::vector<pollfd> asked = asked_of(count, sets);
    if (!has_rsockets(asked.data(), asked.size())) {
      return NEXT(pselect)(count, reads, writes, exceptions, timeout, mask);
    }
    const Masked masked(mask);
    return select_with(asked, sets, milliseconds_of(timeout));
  });
}
