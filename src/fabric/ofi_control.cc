// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_control.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace verbena::fabric {
namespace {

// A peer that does not read what wakes it needs no more of it.
constexpr uint8_t kWake = 'W';

void set_up(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  // A peer whose host is gone: after about a minute without an answer.
  const int idle_s = 30;
  const int between_s = 10;
  const int probes = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

using NameCall = int (*)(int, sockaddr*, socklen_t*);

std::string host_by(NameCall call, int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (call(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  return host_of(reinterpret_cast<sockaddr*>(&address), bytes);
}

}  // namespace

std::string host_of(const sockaddr* address, socklen_t bytes) {
  std::array<char, NI_MAXHOST> text{};
  sockaddr_storage own{};
  std::memcpy(&own, address, std::min<size_t>(bytes, sizeof own));
  // An IPv4 peer of a socket that takes both.
  auto& six = reinterpret_cast<sockaddr_in6&>(own);
  if (own.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    std::memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, sizeof four.sin_addr);
    own = {};
    std::memcpy(&own, &four, sizeof four);
    bytes = sizeof four;
  }
  if (getnameinfo(reinterpret_cast<sockaddr*>(&own), bytes, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return {};
  }
  return text.data();
}

OfiControl::OfiControl(UniqueFd accepted) : fd_(std::move(accepted)) { set_up(fd_.get()); }

Result<OfiControl> OfiControl::connect(const sockaddr_storage& to) {
  OfiControl control;
  control.fd_.reset(socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!control.fd_.valid()) return fail(std::string(std::strerror(errno)));
  set_up(control.fd_.get());
  const socklen_t bytes = to.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::connect(control.fd_.get(), reinterpret_cast<const sockaddr*>(&to), bytes) != 0 &&
      errno != EINPROGRESS) {
    return fail(std::string(std::strerror(errno)));
  }
  control.connecting_ = true;
  return control;
}

void OfiControl::send(std::span<const uint8_t> bytes) {
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
}

void OfiControl::wake() {
  if (!fd_.valid() || wants_to_write()) return;
  static_cast<void>(::send(fd_.get(), &kWake, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool OfiControl::progress(std::vector<uint8_t>& to, size_t most) {
  const auto broken = [this](int error, const char* otherwise) {
    why_ = error == 0 ? otherwise : std::strerror(error);
    return false;
  };
  if (connecting_) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return broken(error, "");
    if (peer_host().empty()) return true;  // not yet
    connecting_ = false;
  }
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (sent < 0) return broken(errno, "");
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  std::array<uint8_t, 1024> bytes;
  // Not for ever, however much it sends: the rest wakes us again.
  for (int i = 0; i < 4; ++i) {
    const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return broken(got < 0 ? errno : 0, "the peer has disconnected");
    const size_t kept = std::min(static_cast<size_t>(got), most - std::min(most, to.size()));
    to.insert(to.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(kept));
  }
  return true;
}

std::string OfiControl::own_host() const { return host_by(getsockname, fd_.get()); }
std::string OfiControl::peer_host() const { return host_by(getpeername, fd_.get()); }

}  // namespace verbena::fabric
