// SPDX-License-Identifier: Apache-2.0
#include "device/kernel_world.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/signals.h"

namespace verbena::device {
namespace {

// The kernel may refuse: a user has so much memory for this, and no more.
[[nodiscard]] bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

int KernelWorld::open(const link::Link& link) {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_packets_.reset(::epoll_create1(EPOLL_CLOEXEC));
  epoll_control_.reset(::epoll_create1(EPOLL_CLOEXEC));
  receive_fds_ = link.receive_fds();
  control_fd_ = link.control_fd();
  const int packets = epoll_packets_.get();
  const int control = epoll_control_.get();
  const bool opened =
      wake_.valid() && packets >= 0 && control >= 0 && watch(packets, wake_.get()) &&
      watch(control, wake_.get()) && watch(packets, control_fd_) && watch(control, control_fd_) &&
      std::ranges::all_of(receive_fds_, [packets](int fd) { return watch(packets, fd); });
  return opened ? 0 : errno;
}

void KernelWorld::close() {
  wake_.reset();
  epoll_packets_.reset();
  epoll_control_.reset();
}

ProgressWorld::Ready KernelWorld::sleep_helper(Time until, Wakes wakes) {
  const Duration timeout = until == kNever ? kNever : std::max<Duration>(until - clock(), 0);
  std::array<epoll_event, 2 + link::kMaxReceiveFds> room;
  Ready ready{.control = false, .packets = {}};
  if (wakes == Wakes::kControl) ready.packets = link::kAllReady;
  const int epoll = wakes == Wakes::kPackets ? epoll_packets_.get() : epoll_control_.get();
  for (const epoll_event& event : helper_epoll_.wait(epoll, room, timeout)) {
    if (event.data.fd == wake_.get()) {
      uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    } else if (event.data.fd == control_fd_) {
      ready.control = true;
    } else {
      const auto found = std::ranges::find(receive_fds_, event.data.fd);
      ready.packets.set(static_cast<size_t>(found - receive_fds_.begin()));
    }
  }
  return ready;
}

void KernelWorld::wake_helper() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

ProgressWorld::Woken KernelWorld::sleep_receiving(CompletionChannel& channel, bool may_sleep) {
  std::array<pollfd, 1 + link::kMaxReceiveFds> set{};
  nfds_t count = 0;
  set[count++] = {channel.fd(), POLLIN, 0};
  for (const int fd : receive_fds_) set[count++] = {fd, POLLIN, 0};
  while (::poll(set.data(), count, may_sleep ? -1 : 0) < 0) {
    if (errno != EINTR || !signals_restart()) return {.error = errno};
  }
  Woken woken{.by_channel = set[0].revents != 0};
  for (nfds_t i = 1; i < count; ++i) woken.packets[i - 1] = set[i].revents != 0;
  return woken;
}

}  // namespace verbena::device
