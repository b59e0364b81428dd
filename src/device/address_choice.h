// SPDX-License-Identifier: Apache-2.0
// Which of the host's addresses the device offers: a list of interfaces, addresses and networks, in
// the order in which they are wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/gid.h"

namespace verbena::device {

// One item: an interface by name, or a network by its first bits (an address: all 128).
struct AddressPattern {
  std::string interface = {};  // empty: any
  wire::Gid network = {};
  uint32_t bits = 0;

  [[nodiscard]] bool matches(const wire::Gid& address, std::string_view on_interface) const;
};

class AddressChoice {
 public:
  // "eth0,10.0.0.0/8,fd99::1"; the text of a failure names the item. Empty: all addresses.
  [[nodiscard]] static Result<AddressChoice, std::string> parse(std::string_view list);

  // The place of the first item that fits, 0 if all are offered; nothing if the address is not.
  [[nodiscard]] std::optional<size_t> place_of(const wire::Gid& address,
                                               std::string_view interface) const;

 private:
  std::vector<AddressPattern> patterns_;
};

}  // namespace verbena::device
