// SPDX-License-Identifier: Apache-2.0
#include "device/address_choice.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <net/if.h>

namespace verbena::device {
namespace {

constexpr uint32_t kAllBits = 128;
constexpr uint32_t kMappedBits = 96;  // before the IPv4 address in a mapped one

[[nodiscard]] bool same_start(const wire::Gid& a, const wire::Gid& b, uint32_t bits) {
  const size_t whole = bits / 8;
  if (std::memcmp(a.bytes.data(), b.bytes.data(), whole) != 0) return false;
  const uint32_t rest = bits % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff00 >> rest);
  return ((a.bytes[whole] ^ b.bytes[whole]) & mask) == 0;
}

[[nodiscard]] Result<AddressPattern, std::string> parse_item(const std::string& item) {
  const size_t slash = item.find('/');
  const std::string address = item.substr(0, slash);
  AddressPattern pattern{.bits = kAllBits};
  uint32_t before = 0;
  in_addr in{};
  if (::inet_pton(AF_INET, address.c_str(), &in) == 1) {
    pattern.network = wire::Gid::from_ipv4(0, 0, 0, 0);
    std::memcpy(pattern.network.bytes.data() + 12, &in, sizeof in);
    before = kMappedBits;
  } else if (::inet_pton(AF_INET6, address.c_str(), pattern.network.bytes.data()) != 1) {
    if (slash != std::string::npos || item.empty() || item.size() >= IFNAMSIZ) {
      return fail("'" + item + "' is no interface, address or network (10.0.0.0/8)");
    }
    return AddressPattern{.interface = item};
  }
  if (slash == std::string::npos) return pattern;
  const char* const end = item.data() + item.size();
  const auto [stop, error] = std::from_chars(item.data() + slash + 1, end, pattern.bits);
  if (error != std::errc() || stop != end || pattern.bits > kAllBits - before) {
    return fail("'" + item + "': what follows '/' is a number of bits, at most " +
                std::to_string(kAllBits - before));
  }
  pattern.bits += before;
  return pattern;
}

}  // namespace

bool AddressPattern::matches(const wire::Gid& address, std::string_view on_interface) const {
  if (!interface.empty()) return interface == on_interface;
  return same_start(network, address, bits);
}

Result<AddressChoice, std::string> AddressChoice::parse(std::string_view list) {
  AddressChoice choice;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    auto pattern = parse_item(std::string(list.substr(0, comma)));
    if (!pattern) return fail(pattern.error());
    choice.patterns_.push_back(std::move(*pattern));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return choice;
}

std::optional<size_t> AddressChoice::place_of(const wire::Gid& address,
                                              std::string_view interface) const {
  if (patterns_.empty()) return 0;
  const auto found = std::ranges::find_if(patterns_, [&](const AddressPattern& pattern) {
    return pattern.matches(address, interface);
  });
  if (found == patterns_.end()) return std::nullopt;
  return static_cast<size_t>(found - patterns_.begin());
}

}  // namespace verbena::device
