// SPDX-License-Identifier: Apache-2.0
// The addresses that a port or a listener is bound to: one, all of a family, or all.
#pragma once

#include <cstdint>

#include "wire/gid.h"

namespace verbena::wire {

class AddressSet {
 public:
  // In the host's shared table as well.
  enum class Kind : uint32_t { kOne = 1, kAllIpv4, kAllIpv6, kAll };

  constexpr AddressSet() = default;
  constexpr AddressSet(const Gid& one) : kind_(Kind::kOne), one_(one) {}
  constexpr AddressSet(Kind kind, const Gid& one) : kind_(kind), one_(one) {}
  [[nodiscard]] static constexpr AddressSet all_ipv4() { return {Kind::kAllIpv4, {}}; }
  [[nodiscard]] static constexpr AddressSet all_ipv6() { return {Kind::kAllIpv6, {}}; }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr bool is_one() const { return kind_ == Kind::kOne; }
  // Only if it is one.
  [[nodiscard]] constexpr const Gid& one() const { return one_; }

  [[nodiscard]] constexpr bool contains(const Gid& address) const {
    switch (kind_) {
      case Kind::kOne:     return address == one_;
      case Kind::kAllIpv4: return address.is_ipv4();
      case Kind::kAllIpv6: return !address.is_ipv4();
      case Kind::kAll:     return true;
    }
    return false;  // of a stranger's making
  }
  [[nodiscard]] constexpr bool overlaps(const AddressSet& other) const {
    if (is_one()) return other.contains(one_);
    if (other.is_one()) return contains(other.one_);
    return kind_ == other.kind_ || kind_ == Kind::kAll || other.kind_ == Kind::kAll;
  }
  // Whether both can be listened on: the one address goes before many.
  [[nodiscard]] constexpr bool listens_beside(const AddressSet& other) const {
    return is_one() != other.is_one() || !overlaps(other);
  }

  friend constexpr bool operator==(const AddressSet&, const AddressSet&) = default;

 private:
  Kind kind_ = Kind::kAll;
  Gid one_{};
};

}  // namespace verbena::wire
