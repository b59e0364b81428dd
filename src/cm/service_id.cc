// SPDX-License-Identifier: Apache-2.0
#include "cm/service_id.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace verbena::cm {
namespace {

constexpr uint8_t kVersion = 0;
constexpr uint32_t kSource = 4;
constexpr uint32_t kDestination = 20;

wire::Gid read_address(const uint8_t* p, bool ipv4) {
  if (ipv4) return wire::Gid::from_ipv4(p[12], p[13], p[14], p[15]);
  wire::Gid gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}

void write_address(uint8_t* p, const wire::Gid& gid, bool ipv4) {
  std::memcpy(p, gid.bytes.data(), gid.bytes.size());
  if (ipv4) std::fill_n(p, 12, uint8_t{0});
}

}  // namespace

std::optional<AddressHeader> AddressHeader::read(std::span<const uint8_t> private_data) {
  if (private_data.size() < kBytes) return {};
  const uint8_t* const p = private_data.data();
  const uint8_t ip_version = p[1] >> 4;
  if (p[0] != kVersion || (ip_version != 4 && ip_version != 6)) return {};
  const bool ipv4 = ip_version == 4;
  return AddressHeader{load_be16(p + 2), read_address(p + kSource, ipv4),
                       read_address(p + kDestination, ipv4)};
}

void AddressHeader::write(uint8_t* p) const {
  const bool ipv4 = source.is_ipv4() && destination.is_ipv4();
  p[0] = kVersion;
  p[1] = ipv4 ? 0x40 : 0x60;
  store_be16(p + 2, source_port);
  write_address(p + kSource, source, ipv4);
  write_address(p + kDestination, destination, ipv4);
}

}  // namespace verbena::cm
