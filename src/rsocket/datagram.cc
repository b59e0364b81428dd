// SPDX-License-Identifier: Apache-2.0
// What programs call.
#include "rsocket/datagram.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <rdma/rsocket.h>

#include "rsocket/option_values.h"

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

[[nodiscard]] std::optional<Address> read_peer(const sockaddr* address, socklen_t length) {
  if (address == nullptr || length < sizeof(sockaddr_in)) return std::nullopt;
  if (address->sa_family == AF_INET6 && length < sizeof(sockaddr_in6)) return std::nullopt;
  const auto read = Address::read(address);
  return read ? std::optional(read->unmapped()) : std::nullopt;
}

[[nodiscard]] int outcome_of(int result) { return result < 0 ? -errno : result; }

void show_address(const Address& from, int domain, sockaddr* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return;
  sockaddr_storage shown{};
  from.write(shown);
  socklen_t bytes = from.length();
  if (domain == AF_INET6 && from.family() == AF_INET) {
    // As a socket for IPv6 has it.
    auto& mapped = reinterpret_cast<sockaddr_in6&>(shown);
    mapped = {};
    mapped.sin6_family = AF_INET6;
    mapped.sin6_port = htons(from.port());
    std::memcpy(&mapped.sin6_addr, from.gid().bytes.data(), 16);
    bytes = sizeof mapped;
  }
  std::memcpy(to, &shown, std::min(*length, bytes));
  *length = bytes;
}

}  // namespace

int DatagramSocket::make(int domain, DatagramSocket*& made) {
  UniqueFd udp(::socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!udp.valid()) return errno;
  made = new DatagramSocket(domain, std::move(udp));
  return 0;
}

int DatagramSocket::bind(const sockaddr* address, socklen_t length) {
  const MutexLock lock(mutex_);
  return outcome_of(::bind(udp_.get(), address, length));
}

int DatagramSocket::listen(int) { return -EOPNOTSUPP; }
int DatagramSocket::accept(Socket*&) { return -EOPNOTSUPP; }

int DatagramSocket::connect(const sockaddr* address, socklen_t length) {
  const MutexLock lock(mutex_);
  if (::connect(udp_.get(), address, length) != 0) return -errno;
  connected_ = read_peer(address, length);  // nothing: not any more
  if (!connected_) return 0;
  int error = 0;
  (void)peer_at(*connected_, error);
  return error;
}

int DatagramSocket::shutdown(int how) {
  const MutexLock lock(mutex_);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
  if (!connected_) return -ENOTCONN;
  shut_ = true;
  ring();
  return 0;
}

ssize_t DatagramSocket::receive(Pieces& into, int flags, sockaddr* from, socklen_t* from_length) {
  const MutexLock lock(mutex_);
  const int error = wait(is_nonblocking(flags), deadline_of(receive_timeout_), [&] {
    mutex_.assert_held();
    return !waiting_.empty() || shut_;
  });
  if (error != 0) return error;
  if (waiting_.empty()) return 0;
  const Waiting& first = waiting_.front();
  const size_t bytes = std::min(into.left(), first.payload.size());
  into.copy_from(first.payload.data(), bytes);
  show_address(first.from, domain(), from, from_length);
  const size_t whole = first.payload.size();
  if ((flags & MSG_PEEK) == 0) {
    give_back(first);
    waiting_.pop_front();
  }
  return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? whole : bytes);
}

ssize_t DatagramSocket::send(Pieces& from, int flags, const sockaddr* to, socklen_t to_length) {
  const MutexLock lock(mutex_);
  if (shut_) return -EPIPE;
  progress();
  auto address = to != nullptr ? read_peer(to, to_length) : connected_;
  if (!address) return to != nullptr ? -EINVAL : -EDESTADDRREQ;
  int error = 0;
  Peer* const peer = peer_at(*address, error);
  if (error != 0) return error;
  if (from.left() + kMostHeaderBytes > kDatagramBytes) return -EMSGSIZE;
  // Who is one too many stays with UDP.
  if (peer == nullptr) return send_by_udp(UdpOp::kData, *ports_.front(), *address, from, flags);
  if (peer->way == nullptr) {
    return send_by_udp(UdpOp::kData, *peer->port, peer->address, from, flags);
  }
  DatagramPort& port = *peer->port;
  const HeaderBytes header = datagram_header(port.address());
  if (from.left() + header.length > peer->most) return -EMSGSIZE;
  error = wait(is_nonblocking(flags), deadline_of(send_timeout_), [&] { return port.can_send(); });
  if (error != 0) return error;
  const size_t bytes = from.left();
  const std::span<uint8_t> place = port.next_place();
  std::ranges::copy(header.used(), place.begin());
  from.copy_to(&place[header.length], bytes);
  const auto length = static_cast<uint32_t>(header.length + bytes);
  // Looked up again: another thread may have had the mutex.
  error = peer->way != nullptr ? port.send(length, peer->way, peer->qpn) : EAGAIN;
  if (error != 0) return error == EINVAL ? -EMSGSIZE : -error;
  return static_cast<ssize_t>(bytes);
}

int DatagramSocket::own_name(sockaddr* address, socklen_t* length) {
  return outcome_of(::getsockname(udp_.get(), address, length));
}

int DatagramSocket::peer_name(sockaddr* address, socklen_t* length) {
  return outcome_of(::getpeername(udp_.get(), address, length));
}

int DatagramSocket::set_option(int level, int name, const void* value, socklen_t length) {
  const MutexLock lock(mutex_);
  if (level == SOL_RDMA) {
    const auto given = read_value<uint32_t>(value, length);
    if (!given || !ports_.empty()) return -EINVAL;
    switch (name) {
      case RDMA_SQSIZE: sizes_.send_places = *given; return 0;
      case RDMA_RQSIZE: sizes_.receive_places = *given; return 0;
      case RDMA_INLINE: sizes_.inline_bytes = std::min(*given, kMostInline); return 0;
      default:          return -EOPNOTSUPP;
    }
  }
  if (::setsockopt(udp_.get(), level, name, value, length) != 0) return -errno;
  if (level != SOL_SOCKET) return 0;
  if (name == SO_RCVTIMEO) return read_time(value, length, receive_timeout_);
  if (name == SO_SNDTIMEO) return read_time(value, length, send_timeout_);
  if ((name == SO_RCVBUF || name == SO_SNDBUF) && ports_.empty()) {
    const auto given = read_value<int>(value, length);
    if (given) (name == SO_RCVBUF ? sizes_.receive_bytes : sizes_.send_bytes) = twice(*given);
  }
  return 0;
}

int DatagramSocket::get_option(int level, int name, void* value, socklen_t* length) {
  const MutexLock lock(mutex_);
  if (level != SOL_RDMA) return outcome_of(::getsockopt(udp_.get(), level, name, value, length));
  switch (name) {
    case RDMA_SQSIZE: return write_value(static_cast<int>(sizes_.send_places), value, length);
    case RDMA_RQSIZE: return write_value(static_cast<int>(sizes_.receive_places), value, length);
    case RDMA_INLINE: return write_value(static_cast<int>(sizes_.inline_bytes), value, length);
    default:          return -EOPNOTSUPP;
  }
}

void DatagramSocket::close() {
  const MutexLock lock(mutex_);
  // What was sent is under way when it has completed; that takes no peer's consent.
  (void)wait(false, Clock::now() + std::chrono::seconds(1), [&] {
    mutex_.assert_held();
    return is_idle();
  });
  closed_ = shut_ = true;
  ring();
}

short DatagramSocket::state_of(short events) const {
  short state = 0;
  if (!waiting_.empty() || shut_) state |= static_cast<short>(events & (POLLIN | POLLRDNORM));
  const bool full = !ports_.empty() &&
                    std::ranges::none_of(ports_, [](const auto& port) { return port->can_send(); });
  if (!full) state |= static_cast<short>(events & (POLLOUT | POLLWRNORM));
  return state;
}

SleepSet DatagramSocket::sleep_set() const {
  SleepSet set{};
  set[0] = {.fd = queue_.event_fd(), .events = POLLIN, .revents = 0};
  set[1] = {.fd = udp_.get(), .events = POLLIN, .revents = 0};
  return set;
}

void DatagramSocket::woken(const SleepSet& set) {
  if (set[0].revents != 0) {
    queue_.take_event();
    ring();
  }
  if (set[1].revents != 0) progress();
}

}  // namespace verbena::rsocket
