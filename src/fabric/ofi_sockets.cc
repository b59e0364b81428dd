// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_sockets.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

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

}  // namespace

void shut_down_sockets(std::span<const uint8_t> own, std::span<const uint8_t> peer) {
  const SocketName at = name_of(own);
  const SocketName to = name_of(peer);
  std::set<uint16_t> served;  // ports at which this process accepts
  std::vector<std::pair<int, uint16_t>> made;
  std::error_code failed;
  std::filesystem::directory_iterator files("/proc/self/fd", failed);
  for (const std::filesystem::directory_iterator end; !failed && files != end;
       files.increment(failed)) {
    const int fd = std::atoi(files->path().filename().c_str());
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
