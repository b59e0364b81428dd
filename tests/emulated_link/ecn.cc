// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/ecn.h"

namespace verbena::emulated {
namespace {

constexpr size_t kIpv4HeaderBytes = 20;
constexpr size_t kIpv6HeaderBytes = 40;
constexpr size_t kIpv4Checksum = 10;
constexpr uint8_t kCe = 3;

[[nodiscard]] uint8_t version(std::span<const uint8_t> packet) {
  return packet.empty() ? 0 : packet[0] >> 4;
}

}  // namespace

bool is_ect(std::span<const uint8_t> packet) {
  switch (version(packet)) {
    case 4:  return packet.size() >= kIpv4HeaderBytes && (packet[1] & kCe) != 0;
    case 6:  return packet.size() >= kIpv6HeaderBytes && (packet[1] >> 4 & kCe) != 0;
    default: return false;
  }
}

void mark_ce(std::span<uint8_t> packet) {
  if (version(packet) == 6) {
    packet[1] |= kCe << 4;
    return;
  }
  const auto before = static_cast<uint8_t>(packet[1]);
  packet[1] |= kCe;
  // RFC 1624: the complement of the sum changes by what the word changed; the word's upper byte did
  // not.
  uint32_t sum = static_cast<uint32_t>(packet[kIpv4Checksum] << 8 | packet[kIpv4Checksum + 1]);
  sum = (~sum & 0xffffu) + (~uint32_t{before} & 0xffffu) + packet[1];
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = ~sum & 0xffffu;
  packet[kIpv4Checksum] = static_cast<uint8_t>(sum >> 8);
  packet[kIpv4Checksum + 1] = static_cast<uint8_t>(sum);
}

}  // namespace verbena::emulated
