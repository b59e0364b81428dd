// SPDX-License-Identifier: Apache-2.0
#include "link/udp_receiver.h"

#include <algorithm>
#include <cstring>

#include <netinet/in.h>
#include <netinet/udp.h>

#include "link/shared_table.h"
#include "link/steering.h"
#include "link/udp_transmitter.h"

namespace verbena::link {
namespace {

template <typename T>
[[nodiscard]] T read_control(const cmsghdr* item) {
  T value;
  std::memcpy(&value, CMSG_DATA(item), sizeof value);
  return value;
}

// Not what goes to groups, or to QP1.
[[nodiscard]] bool is_paid_for(const Datagram& datagram) {
  return !datagram.destination.is_multicast() && datagram.bytes.size() > kSlotByte &&
         datagram.bytes[kSlotByte] != kGsiSlot;
}

// At most so many; the number, or -1. For one, recvmmsg costs more than recvmsg.
int take(int fd, std::span<mmsghdr> messages) {
  if (messages.size() > 1) {
    return ::recvmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT,
                      nullptr);
  }
  const ssize_t bytes = ::recvmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return -1;
  messages[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

}  // namespace

void split(Datagram joined, uint32_t segment, DatagramHandler& handler) {
  for (std::span<const uint8_t> rest = joined.bytes; !rest.empty();) {
    joined.bytes = rest;
    if (const uint32_t taken = handler.on_joined(joined, segment); taken != 0) {
      rest = rest.subspan(std::min(size_t{taken} * segment, rest.size()));
      joined.index = static_cast<uint16_t>(joined.index + taken);
      continue;
    }
    joined.bytes = rest.first(std::min<size_t>(segment, rest.size()));
    rest = rest.subspan(joined.bytes.size());
    handler.on_datagram(joined);
    ++joined.index;
  }
}

UdpReceiver::UdpReceiver()
    : buffers_(kBatch * kBufferBytes),
      controls_(kBatch * kControlBytes),
      from_(kBatch),
      iovecs_(kBatch),
      headers_(kBatch) {
  for (size_t i = 0; i < kBatch; ++i) {
    iovecs_[i] = {buffers_.data() + i * kBufferBytes, kBufferBytes};
    msghdr& msg = headers_[i].msg_hdr;
    msg.msg_name = &from_[i];
    msg.msg_iov = &iovecs_[i];
    msg.msg_iovlen = 1;
    msg.msg_control = controls_.data() + i * kControlBytes;
  }
}

void UdpReceiver::dispatch(const mmsghdr& header, Family family, DatagramHandler& handler) {
  const msghdr& msg = header.msg_hdr;
  Datagram datagram;
  datagram.hop_limit = 64;
  uint32_t segment = header.msg_len;
  for (cmsghdr* item = CMSG_FIRSTHDR(&msg); item != nullptr;
       item = CMSG_NXTHDR(const_cast<msghdr*>(&msg), item)) {
    if (item->cmsg_level == SOL_UDP && item->cmsg_type == kUdpGro) {
      segment = static_cast<uint32_t>(std::max(read_control<int>(item), 1));
    } else if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
      const auto info = read_control<in_pktinfo>(item);
      const auto* const to = reinterpret_cast<const uint8_t*>(&info.ipi_addr);
      datagram.destination = wire::Gid::from_ipv4(to[0], to[1], to[2], to[3]);
    } else if (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_PKTINFO) {
      const auto info = read_control<in6_pktinfo>(item);
      std::memcpy(datagram.destination.bytes.data(), &info.ipi6_addr, 16);
    } else if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_TOS) {
      datagram.traffic_class = read_control<uint8_t>(item);
    } else if ((item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_TTL) ||
               (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_HOPLIMIT)) {
      datagram.hop_limit = static_cast<uint8_t>(read_control<int>(item));
    } else if (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_TCLASS) {
      datagram.traffic_class = static_cast<uint8_t>(read_control<int>(item));
    } else if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_RXQ_OVFL) {
      // Each socket counts its own.
      overflow_[static_cast<size_t>(family)] = read_control<uint32_t>(item);
      counters_.overflow = overflow_[0] + overflow_[1];
    }
  }
  if (family == Family::kIpv4) {
    sockaddr_in from;
    std::memcpy(&from, msg.msg_name, sizeof from);
    const auto* const address = reinterpret_cast<const uint8_t*>(&from.sin_addr);
    datagram.source = wire::Gid::from_ipv4(address[0], address[1], address[2], address[3]);
    datagram.source_port = ntohs(from.sin_port);
  } else {
    sockaddr_in6 from;
    std::memcpy(&from, msg.msg_name, sizeof from);
    std::memcpy(datagram.source.bytes.data(), &from.sin6_addr, 16);
    datagram.source_port = ntohs(from.sin6_port);
  }
  ++counters_.datagrams;
  counters_.bytes += header.msg_len;
  large_ = false;
  if (header.msg_len == 0) return;  // nobody's, and of no length to divide by
  if ((msg.msg_flags & MSG_TRUNC) != 0) ++counters_.truncated;
  datagram.bytes = {static_cast<const uint8_t*>(msg.msg_iov->iov_base), header.msg_len};
  if (is_paid_for(datagram)) {
    handler.on_consumed(datagram, datagram_cost(header.msg_len, std::min(segment, header.msg_len)));
  }
  large_ = header.msg_len >= kLarge;
  counters_.packets += (header.msg_len + segment - 1) / segment;
  if (header.msg_len <= segment) {
    handler.on_datagram(datagram);
  } else {
    split(datagram, segment, handler);
  }
}

size_t UdpReceiver::receive(int fd, Family family, DatagramHandler& handler, Ask ask) {
  size_t& expected = expected_[static_cast<size_t>(family)];
  const size_t most = large_ ? 1 : ask == Ask::kBatch ? kBatch : expected;
  for (size_t i = 0; i < most; ++i) {
    mmsghdr& header = headers_[i];
    header.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    header.msg_hdr.msg_controllen = kControlBytes;
    header.msg_hdr.msg_flags = 0;
  }
  ++counters_.syscalls;
  const int got = take(fd, {headers_.data(), most});
  may_have_left_ = got == static_cast<int>(most);
  if (got <= 0) {
    expected = 1;
    return 0;
  }
  handler.on_batch();
  for (int i = 0; i < got; ++i) dispatch(headers_[static_cast<size_t>(i)], family, handler);
  expected = static_cast<size_t>(got) == most ? std::min(2 * most, kBatch) : 1;
  return static_cast<size_t>(got);
}

}  // namespace verbena::link
