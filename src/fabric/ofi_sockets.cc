// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_sockets.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/ofi_control.h"

namespace verbena::fabric {
namespace {

// An IPv4 address is the same one in its IPv6 form.
struct SocketName {
  std::string host{};
  uint16_t port = 0;
  bool operator==(const SocketName&) const = default;
};

SocketName name_of(const sockaddr_storage& address, socklen_t bytes) {
  const uint16_t port = address.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return {host_of(reinterpret_cast<const sockaddr*>(&address), bytes), ntohs(port)};
}

SocketName name_of(std::span<const uint8_t> bytes) {
  sockaddr_storage address{};
  const size_t length = std::min(bytes.size(), sizeof address);
  std::memcpy(&address, bytes.data(), length);
  return name_of(address, static_cast<socklen_t>(length));
}

template <typename Call>
SocketName name_by(Call call, int fd) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (call(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return {};
  return name_of(address, bytes);
}

bool listens(int fd) {
  int yes = 0;
  socklen_t bytes = sizeof yes;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &bytes) == 0 && yes != 0;
}

// Of this process. If there is none left to list them with, all numbers are tried.
std::vector<int> descriptors() {
  std::vector<int> all;
  std::error_code failed;
  std::filesystem::directory_iterator files("/proc/self/fd", failed);
  for (const std::filesystem::directory_iterator end; !failed && files != end;
       files.increment(failed)) {
    all.push_back(std::atoi(files->path().filename().c_str()));
  }
  if (!failed) return all;
  constexpr rlim_t kMost = 1 << 20;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  all.clear();
  for (int fd = 0; fd < static_cast<int>(std::min(limit.rlim_cur, kMost)); ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) all.push_back(fd);
  }
  return all;
}

// This end has sent something, or nobody knows.
bool answers(int fd) {
  // As the kernel has it; the C library's tcp_info is shorter.
  struct {
    tcp_info begin{};
    std::array<uint64_t, 6> others{};
    uint32_t data_segments_in = 0;
    uint32_t data_segments_out = 0;
  } info;
  static_assert(offsetof(decltype(info), data_segments_out) == 156);
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < sizeof info) return true;
  return info.data_segments_out > 0;
}

// By which the kernel tells sockets apart; 0: there is none.
ino_t inode_of(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

UnansweredSockets::UnansweredSockets(std::span<const uint8_t> own) {
  if (own.size() < sizeof(sa_family_t)) return;
  const SocketName at = name_of(own);
  if (at.host.empty()) return;
  for (const int fd : descriptors()) {
    if (name_by(getsockname, fd) == at && !listens(fd) && !answers(fd)) {
      all_.emplace_back(fd, inode_of(fd));
    }
  }
}

void UnansweredSockets::close_forgotten() const {
  for (const auto& [fd, inode] : all_) {
    if (inode != 0 && inode_of(fd) == inode) close(fd);
  }
}

void shut_down_sockets(std::span<const uint8_t> own, std::span<const uint8_t> peer) {
  const SocketName at = name_of(own);
  const SocketName to = name_of(peer);
  std::set<uint16_t> served;  // ports at which this process accepts
  std::vector<std::pair<int, uint16_t>> made;
  for (const int fd : descriptors()) {
    const SocketName local = name_by(getsockname, fd);
    if (listens(fd)) served.insert(local.port);
    const SocketName remote = name_by(getpeername, fd);
    if (remote.host.empty()) continue;  // not a socket that is connected
    if (local == at) {
      shutdown(fd, SHUT_RDWR);
    } else if (remote == to) {
      made.emplace_back(fd, local.port);
    }
  }
  for (const auto& [fd, port] : made) {
    if (!served.contains(port)) shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace verbena::fabric
