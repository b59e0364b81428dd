// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/icmp.h"

#include <algorithm>

namespace verbena::emulated {
namespace {

constexpr size_t kIpBytes = 20;
constexpr size_t kSource = 12;
constexpr size_t kDestination = 16;

void store(uint8_t* at, uint32_t word) {
  at[0] = static_cast<uint8_t>(word >> 8);
  at[1] = static_cast<uint8_t>(word);
}

// RFC 1071, of an even number of bytes.
[[nodiscard]] uint32_t checksum(std::span<const uint8_t> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) sum += uint32_t{bytes[i]} << 8 | bytes[i + 1];
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

}  // namespace

bool wants_to_hear(std::span<const uint8_t> packet) {
  constexpr uint8_t kPlainIpv4 = 0x45;
  constexpr uint8_t kDontFragment = 0x40;
  return packet.size() >= kIpBytes + 8 && packet[0] == kPlainIpv4 &&
         (packet[6] & kDontFragment) != 0;
}

TooLargeMessage too_large(std::span<const uint8_t> packet, uint16_t carried_bytes) {
  constexpr uint8_t kIcmp = 1;
  constexpr uint8_t kUnreachable = 3;
  constexpr uint8_t kFragmentationNeeded = 4;
  TooLargeMessage message{};
  message[0] = 0x45;
  store(&message[2], message.size());
  message[8] = 64;  // hops
  message[9] = kIcmp;
  std::copy_n(&packet[kDestination], 4, &message[kSource]);
  std::copy_n(&packet[kSource], 4, &message[kDestination]);
  store(&message[10], checksum(std::span(message).first(kIpBytes)));
  uint8_t* const icmp = &message[kIpBytes];
  icmp[0] = kUnreachable;
  icmp[1] = kFragmentationNeeded;
  store(icmp + 6, carried_bytes);
  std::copy_n(packet.begin(), kIpBytes + 8, icmp + 8);
  store(icmp + 2, checksum(std::span(message).subspan(kIpBytes)));
  return message;
}

}  // namespace verbena::emulated
