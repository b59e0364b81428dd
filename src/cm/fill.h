// SPDX-License-Identifier: Apache-2.0
// Private data goes into a field of fixed length; the rest of the field is zero.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "cm/service_id.h"

namespace verbena::cm {

// False when it does not fit.
template <size_t N>
[[nodiscard]] bool fill(std::array<uint8_t, N>& field, std::span<const uint8_t> data) {
  if (data.size() > N) return false;
  std::ranges::copy(data, field.begin());
  return true;
}

// The same behind the addresses, if there are any.
template <size_t N>
[[nodiscard]] bool fill(std::array<uint8_t, N>& field,
                        const std::optional<AddressHeader>& addresses,
                        std::span<const uint8_t> data) {
  if (!addresses) return fill(field, data);
  if (data.size() > N - AddressHeader::kBytes) return false;
  addresses->write(field.data());
  std::ranges::copy(data, field.begin() + AddressHeader::kBytes);
  return true;
}

// What lies behind them.
template <size_t N>
[[nodiscard]] std::span<const uint8_t> user_data(const std::array<uint8_t, N>& field,
                                                 const std::optional<AddressHeader>& addresses) {
  return std::span(field).subspan(addresses ? AddressHeader::kBytes : 0);
}

}  // namespace verbena::cm
