// SPDX-License-Identifier: Apache-2.0
// System calls of the members, beyond those of progress_sim/hooks.cc: another thread may run at
// each, what waits waits in simulated time, and descriptors are noted with their process.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "link/udp_socket.h"
#include "members_sim/kernel.h"

namespace {

using verbena::link::kUdpGro;
using verbena::link::kUdpSegment;
using verbena::members_sim::Kernel;
using verbena::progress_sim::Scheduler;

// Before a system call by a simulated thread. False: it is not one.
bool enter() {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) return false;
  scheduler->point();
  scheduler->drain();
  return true;
}

[[nodiscard]] int opened(long fd) {
  if (Scheduler::current() == nullptr) return static_cast<int>(fd);
  return Kernel::current()->opened(static_cast<int>(fd));
}

// Others may have something to read by now.
template <typename Result>
[[nodiscard]] Result written(Result result) {
  if (Scheduler* const scheduler = Scheduler::current(); scheduler != nullptr) {
    scheduler->on_write();
  }
  return result;
}

void note_passed(const msghdr& message) {
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(const_cast<msghdr*>(&message), item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(0) + at + sizeof(int) <= item->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + at, sizeof fd);
      (void)opened(fd);
    }
  }
}

[[nodiscard]] int sleep_on(pollfd* set, nfds_t count, verbena::Time until) {
  std::vector<int> fds;
  for (nfds_t i = 0; i < count; ++i) fds.push_back(set[i].fd);
  (void)Scheduler::current()->sleep(fds, until);
  const timespec now{};
  return static_cast<int>(::syscall(SYS_ppoll, set, count, &now, nullptr, 0));
}

[[nodiscard]] in_addr_t address_of(const std::array<uint8_t, 4>& bytes) {
  in_addr_t address = 0;
  std::memcpy(&address, bytes.data(), bytes.size());
  return address;
}

[[nodiscard]] ssize_t send_datagram(Kernel& kernel, int fd, const msghdr& message) {
  Kernel::Datagram datagram;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* const begin = static_cast<const uint8_t*>(message.msg_iov[i].iov_base);
    datagram.bytes.insert(datagram.bytes.end(), begin, begin + message.msg_iov[i].iov_len);
  }
  const auto* const to = static_cast<const sockaddr_in*>(message.msg_name);
  std::memcpy(datagram.destination.data(), &to->sin_addr, datagram.destination.size());
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(const_cast<msghdr*>(&message), item)) {
    if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
      in_pktinfo info;
      std::memcpy(&info, CMSG_DATA(item), sizeof info);
      std::memcpy(datagram.source.data(), &info.ipi_spec_dst, datagram.source.size());
    } else if (item->cmsg_level == SOL_UDP && item->cmsg_type == kUdpSegment) {
      uint16_t segment = 0;
      std::memcpy(&segment, CMSG_DATA(item), sizeof segment);
      datagram.segment = segment;
    }
  }
  const auto bytes = static_cast<ssize_t>(datagram.bytes.size());
  kernel.deliver_from(fd, std::move(datagram));
  return bytes;
}

void hand_over(const Kernel::Datagram& datagram, msghdr& message, unsigned& length) {
  const sockaddr_in from{.sin_family = AF_INET,
                         .sin_port = htons(datagram.source_port),
                         .sin_addr = {address_of(datagram.source)},
                         .sin_zero = {}};
  const in_pktinfo to{.ipi_ifindex = 1,
                      .ipi_spec_dst = {address_of(datagram.destination)},
                      .ipi_addr = {address_of(datagram.destination)}};
  length = static_cast<unsigned>(
      std::min(datagram.bytes.size(), static_cast<size_t>(message.msg_iov->iov_len)));
  std::memcpy(message.msg_iov->iov_base, datagram.bytes.data(), length);
  std::memcpy(message.msg_name, &from, sizeof from);
  cmsghdr* item = CMSG_FIRSTHDR(&message);
  size_t used = 0;
  const auto add = [&](int level, int type, const void* data, size_t bytes) {
    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(item), data, bytes);
    used += CMSG_SPACE(bytes);
    item = reinterpret_cast<cmsghdr*>(static_cast<uint8_t*>(message.msg_control) + used);
  };
  add(IPPROTO_IP, IP_PKTINFO, &to, sizeof to);
  if (const auto segment = static_cast<int>(datagram.segment); segment != 0) {
    add(SOL_UDP, kUdpGro, &segment, sizeof segment);
  }
  message.msg_controllen = used;
}

}  // namespace

extern "C" {

int eventfd(unsigned count, int flags) noexcept {
  return opened(::syscall(SYS_eventfd2, count, flags));
}

int socket(int domain, int type, int protocol) {
  enter();
  return opened(::syscall(SYS_socket, domain, type, protocol));
}

int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  enter();
  return opened(::syscall(SYS_accept4, fd, address, length, flags));
}

int epoll_create1(int flags) { return opened(::syscall(SYS_epoll_create1, flags)); }

int memfd_create(const char* name, unsigned flags) noexcept {
  return opened(::syscall(SYS_memfd_create, name, flags));
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : mode_t{0};
  va_end(rest);
  return opened(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

// No other runs here: containers of descriptors close some while they change.
int close(int fd) {
  if (Kernel* const kernel = Kernel::current(); kernel != nullptr) kernel->closing(fd);
  return static_cast<int>(::syscall(SYS_close, fd));
}

int timerfd_create(int clock, int flags) noexcept {
  if (Scheduler::current() != nullptr) return Kernel::current()->open_timer();
  return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}

int timerfd_settime(int fd, int flags, const itimerspec* when, itimerspec* old) noexcept {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) {
    return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, when, old));
  }
  const verbena::Time at =
      verbena::Time{when->it_value.tv_sec} * verbena::kSecond + when->it_value.tv_nsec;
  scheduler->set_timer(fd, at == 0 ? verbena::kNever : at);
  return 0;
}

int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  enter();
  return static_cast<int>(::syscall(SYS_bind, fd, address, length));
}

int connect(int fd, const sockaddr* address, socklen_t length) {
  enter();
  return written(static_cast<int>(::syscall(SYS_connect, fd, address, length)));
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  enter();
  if (Kernel* const kernel = Kernel::current(); kernel != nullptr && kernel->is_sender(fd)) {
    return send_datagram(*kernel, fd, *message);
  }
  return written(::syscall(SYS_sendmsg, fd, message, flags));
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int) {
  unsigned sent = 0;
  for (; sent < count; ++sent) {
    enter();
    messages[sent].msg_len =
        static_cast<unsigned>(send_datagram(*Kernel::current(), fd, messages[sent].msg_hdr));
  }
  return static_cast<int>(sent);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  enter();
  if (Kernel* const kernel = Kernel::current(); kernel != nullptr && kernel->is_receiver(fd)) {
    const auto datagram = kernel->receive(fd);
    if (!datagram) {
      errno = EAGAIN;
      return -1;
    }
    unsigned length = 0;
    hand_over(*datagram, *message, length);
    return static_cast<ssize_t>(length);
  }
  const ssize_t got = ::syscall(SYS_recvmsg, fd, message, flags);
  if (got > 0) note_passed(*message);
  return got;
}

ssize_t sendto(int fd, const void* bytes, size_t length, int flags, const sockaddr* address,
               socklen_t address_length) {
  if (!enter()) return ::syscall(SYS_sendto, fd, bytes, length, flags, address, address_length);
  const auto* const begin = static_cast<const uint8_t*>(bytes);
  Kernel::current()->deliver_from(fd, {.bytes = {begin, begin + length}});
  return static_cast<ssize_t>(length);
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int, timespec*) {
  enter();
  unsigned got = 0;
  for (; got < count; ++got) {
    const auto datagram = Kernel::current()->receive(fd);
    if (!datagram) break;
    hand_over(*datagram, messages[got].msg_hdr, messages[got].msg_len);
  }
  return static_cast<int>(got);
}

int epoll_wait(int fd, epoll_event* events, int most, int timeout) {
  enter();
  // arm64 has only this one.
  return static_cast<int>(::syscall(SYS_epoll_pwait, fd, events, most, timeout, nullptr, 0));
}

int poll(pollfd* set, nfds_t count, int timeout_ms) {
  if (Scheduler::current() == nullptr || timeout_ms == 0) {
    const timespec time{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1'000'000L};
    return static_cast<int>(
        ::syscall(SYS_ppoll, set, count, timeout_ms < 0 ? nullptr : &time, nullptr, 0));
  }
  const verbena::Time now = Scheduler::current()->now();
  return sleep_on(set, count,
                  timeout_ms < 0 ? verbena::kNever : now + timeout_ms * verbena::kMillisecond);
}

int ppoll(pollfd* set, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) {
    return static_cast<int>(::syscall(SYS_ppoll, set, count, timeout, mask, sizeof(long)));
  }
  const verbena::Time span = verbena::Time{timeout->tv_sec} * verbena::kSecond + timeout->tv_nsec;
  return sleep_on(set, count, scheduler->now() + span);
}

int nanosleep(const timespec* span, timespec* left) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) return static_cast<int>(::syscall(SYS_nanosleep, span, left));
  scheduler->sleep_until(scheduler->now() + verbena::Time{span->tv_sec} * verbena::kSecond +
                         span->tv_nsec);
  return 0;
}

}  // extern "C"
