// SPDX-License-Identifier: Apache-2.0
#include "raw_udp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::bench {
namespace {

constexpr int kUdpSegment = 103;
constexpr int kUdpGro = 104;
constexpr int kReceiveBuffer = 212'992;

void require(bool good, const char* what) { must(good ? 0 : errno, what); }

// A socket on loopback, told its peer; not connected, as the device's are not.
struct RawSocket {
  UniqueFd fd;
  sockaddr_in peer{};

  explicit RawSocket(const Control& control) : fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
    sockaddr_in self{};
    self.sin_family = AF_INET;
    self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&self), sizeof self) == 0, "bind");
    socklen_t length = sizeof self;
    require(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &length) == 0,
            "getsockname");
    control.tell(&self.sin_port, sizeof self.sin_port);
    peer = self;
    control.hear(&peer.sin_port, sizeof peer.sin_port);
  }
  void send(const void* data, size_t bytes) {
    (void)!::sendto(fd.get(), data, bytes, 0, reinterpret_cast<const sockaddr*>(&peer),
                    sizeof peer);
  }
  [[nodiscard]] ssize_t receive(void* data, size_t bytes, Waiting waiting) {
    for (;;) {
      const ssize_t got =
          ::recv(fd.get(), data, bytes, waiting == Waiting::kPolling ? MSG_DONTWAIT : 0);
      if (got >= 0) return got;
      require(errno == EAGAIN || errno == EINTR, "recv");
    }
  }
};

}  // namespace

std::vector<double> udp_pingpong(Role role, const Control& control, uint32_t bytes, uint32_t rounds,
                                 Waiting waiting) {
  RawSocket socket(control);
  std::vector<uint8_t> buffer(65'536);
  std::vector<double> times;
  times.reserve(rounds);
  for (uint32_t i = 0; i < rounds; ++i) {
    if (role == Role::kInitiator) {
      const double begin = now_s();
      socket.send(buffer.data(), bytes);
      (void)socket.receive(buffer.data(), buffer.size(), waiting);
      times.push_back((now_s() - begin) / 2 * 1e6);
    } else {
      (void)socket.receive(buffer.data(), buffer.size(), waiting);
      socket.send(buffer.data(), bytes);
    }
  }
  return times;
}

std::vector<double> udp_gso_blast(Role role, const Control& control, uint32_t packet_bytes,
                                  uint64_t total_bytes) {
  RawSocket socket(control);
  const uint32_t batch = std::min<uint32_t>(64, 65'000 / packet_bytes) * packet_bytes;
  std::vector<uint8_t> buffer(65'536);
  // The receiver tells what it has read, so that nothing is lost.
  constexpr uint64_t kInFlight = 200'000;
  control.barrier();
  const double begin = now_s();
  if (role == Role::kInitiator) {
    const auto segment = static_cast<int>(packet_bytes);
    ::setsockopt(socket.fd.get(), SOL_UDP, kUdpSegment, &segment, sizeof segment);
    uint64_t sent = 0;
    uint64_t told = 0;
    while (told < total_bytes) {
      while (sent < total_bytes && sent - told + batch <= kInFlight) {
        socket.send(buffer.data(), batch);
        sent += batch;
      }
      (void)::recv(socket.fd.get(), &told, sizeof told, MSG_DONTWAIT);
    }
    return {static_cast<double>(told) / (now_s() - begin)};
  }
  const int one = 1;
  ::setsockopt(socket.fd.get(), SOL_UDP, kUdpGro, &one, sizeof one);
  uint64_t got = 0;
  while (got < total_bytes) {
    got += static_cast<uint64_t>(socket.receive(buffer.data(), buffer.size(), Waiting::kPolling));
    socket.send(&got, sizeof got);
  }
  return {};
}

std::vector<double> udp_datagrams(Role role, const Control& control, uint32_t bytes,
                                  uint32_t count) {
  RawSocket socket(control);
  std::vector<uint8_t> buffer(65'536);
  uint64_t got = 0;
  control.barrier();
  const double begin = now_s();
  if (role == Role::kInitiator) {
    for (uint32_t i = 0; i < count; ++i) socket.send(buffer.data(), bytes);
    control.tell(&got, sizeof got);
    control.hear(&got, sizeof got);
    return {static_cast<double>(got) / (now_s() - begin)};
  }
  // Counts what arrives until the sender is done and the socket is empty.
  for (bool done = false;;) {
    if (::recv(socket.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) >= 0) {
      ++got;
    } else if (done) {
      break;
    } else {
      done = control.pending();
    }
  }
  control.tell(&got, sizeof got);
  return {};
}

}  // namespace verbena::bench
