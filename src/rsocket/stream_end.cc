// SPDX-License-Identifier: Apache-2.0
// How streams end, and the names of their ends.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rsocket/stream.h"

namespace verbena::rsocket {

// The peer is told in the stream itself, behind all that was sent. Then it is waited until that has
// arrived, for what follows takes the queue pair down.
int Stream::finish(int how, Clock::time_point deadline) {
  if (how == SHUT_RD || how == SHUT_RDWR) readable_ = false;
  if (how == SHUT_WR || how == SHUT_RDWR) {
    if (finished_ && readable_) return 0;
    writable_ = false;
  }
  ring();
  if (writable_) return 0;
  const Control control = readable_ ? Control::kShutdown : Control::kDisconnect;
  finished_ = true;
  int error = wait(false, deadline, [&] {
    mutex_.assert_held();
    return phase_ != Phase::kConnected || send_->can_control();
  });
  if (error == 0 && phase_ == Phase::kConnected) error = send_control(control);
  if (error != 0 || control == Control::kShutdown) return error;
  error = wait(false, deadline, [&] {
    mutex_.assert_held();
    return phase_ != Phase::kConnected || send_->idle();
  });
  if (phase_ == Phase::kConnected) phase_ = Phase::kEnded;
  (void)rdma_disconnect(id_);
  return error;
}

int Stream::shutdown(int how) {
  const MutexLock lock(mutex_);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
  progress();
  if (phase_ == Phase::kListening) {
    refuse_requests();
    phase_ = Phase::kEnded;
    ring();
    return 0;
  }
  if (phase_ == Phase::kEnded || phase_ == Phase::kBroken) return 0;
  const auto deadline = Clock::now() + kPatience;
  if (const int error = await_connection(false, deadline); error != 0) {
    return error == -EAGAIN ? -ENOTCONN : error;
  }
  return phase_ == Phase::kConnected ? finish(how, deadline) : 0;
}

void Stream::close() {
  const MutexLock lock(mutex_);
  const auto deadline =
      Clock::now() + (options_.linger ? std::chrono::seconds(options_.linger_seconds)
                                      : std::chrono::seconds(kPatience));
  // A peer that has not confirmed yet may do so just now.
  if (phase_ == Phase::kAccepting || phase_ == Phase::kConnected) progress();
  if (phase_ == Phase::kConnected) (void)finish(SHUT_RDWR, deadline);
  closed_ = true;
  ring();
}

void Stream::leave(Clock::time_point deadline) {
  if (!mutex_.try_lock()) return;
  const MutexLock lock(mutex_, std::adopt_lock);
  if (phase_ == Phase::kConnected) (void)finish(SHUT_RDWR, deadline);
}

// A socket for IPv6 shows the peers that came by IPv4 as IPv6 has them.
int Stream::copy_name(const sockaddr* name, sockaddr* to, socklen_t* length) const {
  if (to == nullptr || length == nullptr) return -EFAULT;
  sockaddr_storage shown{};
  socklen_t bytes = sizeof(sockaddr_in);
  if (domain() == AF_INET6 && name->sa_family == AF_INET) {
    sockaddr_in from{};
    std::memcpy(&from, name, sizeof from);
    auto& mapped = reinterpret_cast<sockaddr_in6&>(shown);
    mapped.sin6_port = from.sin_port;
    std::memset(&mapped.sin6_addr.s6_addr[10], 0xff, 2);
    std::memcpy(&mapped.sin6_addr.s6_addr[12], &from.sin_addr, 4);
  } else if (name->sa_family != 0) {
    std::memcpy(&shown, name,
                name->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  }
  shown.ss_family = static_cast<sa_family_t>(domain());
  if (domain() == AF_INET6) bytes = sizeof(sockaddr_in6);
  std::memcpy(to, &shown, std::min(*length, bytes));
  *length = bytes;
  return 0;
}

int Stream::own_name(sockaddr* address, socklen_t* length) {
  const MutexLock lock(mutex_);
  return copy_name(rdma_get_local_addr(id_), address, length);
}

int Stream::peer_name(sockaddr* address, socklen_t* length) {
  const MutexLock lock(mutex_);
  if (phase_ < Phase::kAccepting || phase_ == Phase::kRefused) return -ENOTCONN;
  return copy_name(rdma_get_peer_addr(id_), address, length);
}

}  // namespace verbena::rsocket
