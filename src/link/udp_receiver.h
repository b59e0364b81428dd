// SPDX-License-Identifier: Apache-2.0
// Packets in, over UDP: reads datagrams in batches, splits what the kernel had joined (GRO) and
// hands each transport packet on with its addresses. Nothing is judged here but its length.
//
// Owned by the engine's lock holder.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <sys/socket.h>

#include "link/datagram.h"
#include "link/link_counters.h"
#include "link/udp_socket.h"

namespace verbena::link {

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

  // Whether the last call took as many as it wanted: there may be more.
  [[nodiscard]] bool may_have_left() const { return may_have_left_; }
  // Whether the last datagram was a large one, after which more of the kind are likely.
  [[nodiscard]] bool reads_large() const { return large_; }
  [[nodiscard]] const ReceiveCounters& counters() const { return counters_; }
  // Others that receive beside the sockets count here as well.
  [[nodiscard]] ReceiveCounters& counters() { return counters_; }

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
  bool may_have_left_ = false;
  std::array<size_t, 2> expected_{1, 1};  // by kAsExpected, by family
};

}  // namespace verbena::link
