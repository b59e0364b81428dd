// SPDX-License-Identifier: Apache-2.0
#include "link/own_sources.h"

#include <cstdint>

#include <linux/if_packet.h>
#include <sys/socket.h>

#include "base/endian.h"

namespace verbena::link {
namespace {

constexpr uint32_t kLoopbackIndex = 1;  // in every network namespace
constexpr uint32_t kInterface = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_IFINDEX);
constexpr uint32_t kPacketType = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
constexpr uint32_t kSourceAt = static_cast<uint32_t>(SKF_NET_OFF + 8);
constexpr uint32_t kTake = 0xffffffff;
constexpr uint32_t kDrop = 0;

[[nodiscard]] sock_filter load(uint32_t at) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at); }
[[nodiscard]] sock_filter verdict(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
[[nodiscard]] sock_filter unless_equal(uint32_t value, uint8_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

}  // namespace

std::vector<sock_filter> own_source_program(std::span<const wire::Gid> own) {
  // What a host sends to itself comes from its loopback interface, but for copies of what it sends
  // to a group.
  std::vector<sock_filter> program{
      load(kInterface),  unless_equal(kLoopbackIndex, 1),  verdict(kTake),
      load(kPacketType), unless_equal(PACKET_LOOPBACK, 1), verdict(kTake)};
  size_t left = kMostOwnSources;
  for (const wire::Gid& address : own) {
    if (address.is_ipv4()) continue;
    if (left-- == 0) break;
    for (uint32_t word = 0; word < 4; ++word) {
      program.push_back(load(kSourceAt + 4 * word));
      const auto over_the_rest = static_cast<uint8_t>(2 * (3 - word) + 1);
      program.push_back(unless_equal(load_be32(address.bytes.data() + 4 * word), over_the_rest));
    }
    program.push_back(verdict(kDrop));
  }
  program.push_back(verdict(kTake));
  return program;
}

void drop_own_sources(int fd, std::span<const wire::Gid> own) {
  std::vector<sock_filter> program = own_source_program(own);
  const sock_fprog described{static_cast<unsigned short>(program.size()), program.data()};
  (void)::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &described, sizeof described);
}

}  // namespace verbena::link
