// SPDX-License-Identifier: Apache-2.0
// Packets in, over UDP: reads datagrams in batches, splits what the kernel had joined (GRO) and
// hands each transport packet on with its addresses. Nothing is judged here but its length.
//
// Owned by the engine's lock holder.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>

#include "link/udp_socket.h"
#include "wire/gid.h"

namespace verbena::link {

struct Datagram {
  std::span<const uint8_t> bytes;  // BTH to ICRC
  wire::Gid source;
  wire::Gid destination;
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t index = 0;  // among those the kernel had joined
};

class DatagramHandler {
 public:
  virtual ~DatagramHandler() = default;
  virtual void on_datagram(const Datagram& datagram) = 0;
  // `rest` is several that the kernel had joined: each is the next `segment` bytes, the last may be
  // shorter. Takes as many of the first as it can take at once and gives their number; what is left
  // comes again, by on_datagram() if it is 0.
  [[nodiscard]] virtual uint32_t on_joined(const Datagram& /*rest*/, uint32_t /*segment*/) {
    return 0;
  }
  // A datagram of this cost (datagram_cost) from this sender has left the socket's buffer.
  virtual void on_consumed(const wire::Gid& source, uint16_t source_port, uint32_t cost) = 0;
};

struct ReceiveCounters {
  uint64_t datagrams = 0;  // as the kernel delivered them
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t syscalls = 0;
  uint32_t overflow = 0;  // SO_RXQ_OVFL: dropped by the kernel for want of buffer, of both families
  uint64_t truncated = 0;
};

// Hands packets that the kernel had joined to `handler`: each is `segment` bytes of joined.bytes,
// the last may be shorter.
void split(Datagram joined, uint32_t segment, DatagramHandler& handler);

class UdpReceiver {
 public:
  UdpReceiver();
  // Reads what is there, at most a batch. Gives the number of datagrams the kernel delivered.
  // kAsExpected: as many as came the last times, for a caller in a hurry that asks again anyway; to
  // find that there is no second takes a good part of the time of a first.
  enum class Ask : uint8_t { kBatch, kAsExpected };
  [[nodiscard]] size_t receive(int fd, Family family, DatagramHandler& handler, Ask ask);

  // Whether the last datagram was a large one, after which more of the kind are likely.
  [[nodiscard]] bool reads_large() const { return large_; }
  [[nodiscard]] const ReceiveCounters& counters() const { return counters_; }

 private:
  static constexpr size_t kBatch = 8;
  static constexpr uint32_t kLarge = 16'384;
  static constexpr size_t kBufferBytes = 65'536;
  static constexpr size_t kControlBytes = 256;

  void dispatch(const mmsghdr& header, Family family, DatagramHandler& handler);

  std::vector<uint8_t> buffers_;
  std::vector<uint8_t> controls_;
  std::vector<sockaddr_storage> from_;
  std::vector<iovec> iovecs_;
  std::vector<mmsghdr> headers_;
  ReceiveCounters counters_;
  std::array<uint32_t, 2> overflow_{};  // by family
  // Large datagrams are read one by one: each frees its room for the sender, and is worked on while
  // it is in the cache.
  bool large_ = false;
  std::array<size_t, 2> expected_{1, 1};  // by kAsExpected, by family
};

}  // namespace verbena::link
