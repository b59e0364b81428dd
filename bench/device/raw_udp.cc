// SPDX-License-Identifier: Apache-2.0
#include "raw_udp.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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

[[nodiscard]] double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "bench: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void tell(int control, uint64_t value) {
  require(::write(control, &value, sizeof value) == sizeof value, "control");
}
[[nodiscard]] uint64_t hear(int control) {
  uint64_t value = 0;
  require(::read(control, &value, sizeof value) == sizeof value, "control");
  return value;
}

// A socket on loopback, told its peer; not connected, as the device's are not.
struct RawSocket {
  UniqueFd fd;
  sockaddr_in peer{};

  explicit RawSocket(int control) : fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
    sockaddr_in self{};
    self.sin_family = AF_INET;
    self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&self), sizeof self) == 0, "bind");
    socklen_t length = sizeof self;
    require(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&self), &length) == 0,
            "getsockname");
    tell(control, self.sin_port);
    peer = self;
    peer.sin_port = static_cast<in_port_t>(hear(control));
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

std::vector<double> udp_pingpong(bool initiator, int control, uint32_t bytes, uint32_t rounds,
                                 Waiting waiting) {
  RawSocket socket(control);
  std::vector<uint8_t> buffer(65'536);
  std::vector<double> times;
  times.reserve(rounds);
  for (uint32_t i = 0; i < rounds; ++i) {
    if (initiator) {
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

double udp_gso_blast(bool initiator, int control, uint32_t packet_bytes, uint64_t total_bytes) {
  RawSocket socket(control);
  const uint32_t batch = std::min<uint32_t>(64, 65'000 / packet_bytes) * packet_bytes;
  std::vector<uint8_t> buffer(65'536);
  // The receiver acknowledges what it read, so that about 140 KB are under way and nothing is lost.
  constexpr uint64_t kInFlight = 140'000;
  const double begin = now_s();
  if (initiator) {
    const auto segment = static_cast<int>(packet_bytes);
    ::setsockopt(socket.fd.get(), SOL_UDP, kUdpSegment, &segment, sizeof segment);
    uint64_t sent = 0;
    uint64_t acked = 0;
    while (acked < total_bytes) {
      while (sent < total_bytes && sent - acked + batch <= kInFlight) {
        socket.send(buffer.data(), batch);
        sent += batch;
      }
      uint64_t seen = 0;
      if (::recv(socket.fd.get(), &seen, sizeof seen, MSG_DONTWAIT) == sizeof seen) acked = seen;
      if (sent >= total_bytes && acked >= sent) break;
    }
    return static_cast<double>(acked) / (now_s() - begin);
  }
  const int one = 1;
  ::setsockopt(socket.fd.get(), SOL_UDP, kUdpGro, &one, sizeof one);
  uint64_t got = 0;
  while (got < total_bytes) {
    got += static_cast<uint64_t>(socket.receive(buffer.data(), buffer.size(), Waiting::kPolling));
    socket.send(&got, sizeof got);
  }
  return static_cast<double>(got) / (now_s() - begin);
}

double udp_datagrams(bool initiator, int control, uint32_t bytes, uint32_t count) {
  RawSocket socket(control);
  std::vector<uint8_t> buffer(65'536);
  const double begin = now_s();
  if (initiator) {
    for (uint32_t i = 0; i < count; ++i) socket.send(buffer.data(), bytes);
    tell(control, 1);
    return static_cast<double>(hear(control)) / (now_s() - begin);
  }
  // Counts what arrives until the sender is done and the socket is empty.
  uint64_t got = 0;
  bool done = false;
  for (;;) {
    if (::recv(socket.fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT) >= 0) {
      ++got;
      continue;
    }
    if (done) break;
    pollfd poll_fd{control, POLLIN, 0};
    if (::poll(&poll_fd, 1, 0) > 0) {
      (void)hear(control);
      done = true;
    }
  }
  tell(control, got);
  return static_cast<double>(got) / (now_s() - begin);
}

}  // namespace verbena::bench
