// SPDX-License-Identifier: Apache-2.0
#include "rsocket/poll.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <vector>

#include "rsocket/registry.h"

namespace verbena::rsocket {
namespace {

// What is asked for, divided into rsockets and what the kernel knows.
class Poll {
 public:
  explicit Poll(std::span<pollfd> fds) : asked_(fds) {
    Registry& registry = Registry::of_process();
    for (size_t i = 0; i < fds.size(); ++i) {
      fds[i].revents = 0;
      Held socket = registry.find(fds[i].fd);
      if (socket) {
        sockets_.push_back({.place = i, .socket = std::move(socket)});
      } else {
        kernels_.push_back({.fd = fds[i].fd, .events = fds[i].events, .revents = 0});
        kernel_places_.push_back(i);
      }
    }
  }

  [[nodiscard]] bool has_sockets() const { return !sockets_.empty(); }

  // How many are ready.
  [[nodiscard]] int look() {
    int ready = look_at_sockets();
    if (!kernels_.empty()) {
      const int outcome = ::poll(kernels_.data(), kernels_.size(), 0);
      if (outcome < 0) return -errno;
      ready += show_kernels();
    }
    return ready;
  }

  // Sleeps until something may be ready. 0, or a negative error number.
  [[nodiscard]] int sleep(int patience_ms) {
    std::vector<SleepSet> sets(sockets_.size());
    for (size_t i = 0; i < sockets_.size(); ++i) sockets_[i].socket->begin_sleep(sets[i]);
    int outcome = 0;
    // What came before they were armed.
    if (look_at_sockets() == 0) {
      std::vector<pollfd> all = kernels_;
      for (const SleepSet& set : sets) all.insert(all.end(), set.begin(), set.end());
      outcome = ::poll(all.data(), all.size(), patience_ms) < 0 ? -errno : 0;
      for (size_t i = 0; i < sets.size(); ++i) {
        std::copy_n(&all[kernels_.size() + i * kSleepFds], kSleepFds, sets[i].begin());
      }
    }
    for (size_t i = 0; i < sockets_.size(); ++i) sockets_[i].socket->end_sleep(sets[i]);
    return outcome;
  }

 private:
  struct Asked {
    size_t place;
    Held socket;
  };

  [[nodiscard]] int look_at_sockets() {
    int ready = 0;
    for (const Asked& one : sockets_) {
      pollfd& shown = asked_[one.place];
      shown.revents = one.socket->ready(shown.events);
      if (shown.revents != 0) ++ready;
    }
    return ready;
  }

  [[nodiscard]] int show_kernels() {
    int ready = 0;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      asked_[kernel_places_[i]].revents = kernels_[i].revents;
      if (kernels_[i].revents != 0) ++ready;
    }
    return ready;
  }

  std::span<pollfd> asked_;
  std::vector<Asked> sockets_;
  std::vector<pollfd> kernels_;
  std::vector<size_t> kernel_places_;
};

[[nodiscard]] int milliseconds_to(std::optional<Clock::time_point> until) {
  if (!until) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

}  // namespace

int poll_any(std::span<pollfd> fds, std::optional<Clock::time_point> until) {
  Poll poll(fds);
  const auto spin_until = Clock::now() + settings().polling_time;
  for (;;) {
    const int ready = poll.look();
    if (ready != 0) return ready;
    const auto now = Clock::now();
    if (until && now >= *until) return 0;
    if (poll.has_sockets() && now < spin_until) continue;
    if (const int error = poll.sleep(milliseconds_to(until)); error != 0) return error;
  }
}

}  // namespace verbena::rsocket
