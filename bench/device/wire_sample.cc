// SPDX-License-Identifier: Apache-2.0
#include "wire_sample.h"

#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "base/unique_fd.h"
#include "wire/gid.h"
#include "wire/icrc.h"

namespace verbena::bench {
namespace {

constexpr uint16_t kRocePort = 4791;
constexpr size_t kEthernet = 14;
constexpr size_t kIpv4 = 20;
constexpr size_t kUdp = 8;
constexpr uint32_t kLeastPacket = 16;  // BTH and ICRC

[[nodiscard]] bool right(wire::IcrcFlow flow, std::span<const uint8_t> packet, uint16_t id) {
  if (packet.size() < kLeastPacket) return false;
  flow.ipv4_id = id;
  const auto covered = packet.first(packet.size() - 4);
  return wire::icrc(flow, covered) == wire::load_icrc(packet.data() + covered.size());
}

// A frame is one packet, or a GSO batch that is not cut up before it leaves the loopback interface:
// packets of one size (the last may be shorter), whose identifications count up. The size is not
// written anywhere: it is one that makes the first packet's ICRC right.
[[nodiscard]] uint32_t packet_size(const wire::IcrcFlow& flow, std::span<const uint8_t> batch,
                                   uint16_t id) {
  if (right(flow, batch, id)) return static_cast<uint32_t>(batch.size());
  for (uint32_t small = kLeastPacket; small <= 64; small += 4) {
    if (small < batch.size() && right(flow, batch.first(small), id)) return small;
  }
  for (const uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
    for (uint32_t headers = kLeastPacket; headers <= 44; headers += 4) {
      if (mtu + headers < batch.size() && right(flow, batch.first(mtu + headers), id)) {
        return mtu + headers;
      }
    }
  }
  return 0;
}

void check(std::span<const uint8_t> frame, WireSample& sample) {
  if (frame.size() < kEthernet + kIpv4 + kUdp + kLeastPacket) return;
  const uint8_t* const ip = frame.data() + kEthernet;
  const uint8_t* const udp = ip + kIpv4;
  if (ip[0] != 0x45 || ip[9] != IPPROTO_UDP || load_be16(udp + 2) != kRocePort) return;
  const wire::IcrcFlow flow{.source = wire::Gid::from_ipv4(ip[12], ip[13], ip[14], ip[15]),
                            .destination = wire::Gid::from_ipv4(ip[16], ip[17], ip[18], ip[19]),
                            .source_port = load_be16(udp),
                            .destination_port = kRocePort,
                            .ipv4_dont_fragment = (ip[6] & 0x40) != 0};
  uint16_t id = load_be16(ip + 4);
  auto batch = frame.subspan(kEthernet + kIpv4 + kUdp);
  ++sample.frames;
  const uint32_t size = packet_size(flow, batch, id);
  while (!batch.empty()) {
    const auto packet =
        batch.first(size == 0 ? batch.size() : std::min<size_t>(size, batch.size()));
    ++sample.packets;
    if (!right(flow, packet, id)) ++sample.wrong;
    batch = batch.subspan(packet.size());
    ++id;
  }
}

}  // namespace

WireSample sample_wire(const std::function<void()>& meanwhile) {
  WireSample sample;
  const UniqueFd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP)));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_IP);
  address.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
  sample.able = fd.valid() &&
                ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!sample.able) return sample;

  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::vector<uint8_t> buffer(1 << 17);
    while (!done.load(std::memory_order_relaxed)) {
      pollfd waiting{fd.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 50) <= 0) continue;
      sockaddr_ll from{};
      socklen_t length = sizeof from;
      const ssize_t got = ::recvfrom(fd.get(), buffer.data(), buffer.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
      // Each frame is seen twice on loopback.
      if (got <= 0 || from.sll_pkttype == PACKET_OUTGOING) continue;
      check(std::span(buffer).first(static_cast<size_t>(got)), sample);
    }
  });
  meanwhile();
  done.store(true);
  reader.join();
  return sample;
}

}  // namespace verbena::bench
