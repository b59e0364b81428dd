// SPDX-License-Identifier: Apache-2.0
// A GID: the 128-bit address of a port. On RoCEv2 it is the IPv6 address, or the IPv4 address
// mapped into ::ffff:0:0/96.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace verbena::wire {

struct Gid {
  std::array<uint8_t, 16> bytes{};

  [[nodiscard]] static constexpr Gid from_ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    return Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
  }
  [[nodiscard]] constexpr bool is_ipv4() const {
    return words()[0] == 0 && bytes[8] == 0 && bytes[9] == 0 && bytes[10] == 0xff &&
           bytes[11] == 0xff;
  }
  // The four IPv4 bytes; only meaningful when is_ipv4().
  [[nodiscard]] constexpr const uint8_t* ipv4() const { return bytes.data() + 12; }
  [[nodiscard]] constexpr bool is_multicast() const {
    return is_ipv4() ? bytes[12] >> 4 == 0xe : bytes[0] == 0xff;
  }
  [[nodiscard]] constexpr bool is_zero() const { return *this == Gid{}; }

  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  // Looked at for every packet: two words, not sixteen bytes.
  friend constexpr bool operator==(const Gid& a, const Gid& b) {
    const auto x = a.words();
    const auto y = b.words();
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
  }

  [[nodiscard]] constexpr std::array<uint64_t, 2> words() const {
    return std::bit_cast<std::array<uint64_t, 2>>(bytes);
  }
};

// As an IP address: "10.0.0.1" for a mapped one, else RFC 5952's "fd99::1".
[[nodiscard]] std::string to_string(const Gid& gid);

}  // namespace verbena::wire
