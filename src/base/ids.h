// SPDX-License-Identifier: Apache-2.0
// Strong types for numbers that must not be mixed up.
#pragma once

#include <compare>
#include <cstdint>

namespace verbena {

template <typename Tag, typename Rep>
struct Id {
  Rep value = 0;
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using Qpn = Id<struct QpnTag, uint32_t>;      // queue pair number, 24 bits
using PdId = Id<struct PdTag, uint32_t>;      // protection domain
using SrqId = Id<struct SrqTag, uint32_t>;    // shared receive queue number, 24 bits
using XrcdId = Id<struct XrcdTag, uint32_t>;  // XRC domain; 0: none
using LKey = Id<struct LKeyTag, uint32_t>;    // local key of a memory region
using RKey = Id<struct RKeyTag, uint32_t>;    // remote key of a memory region or window
using RemoteAddr =
    Id<struct RemoteAddrTag, uint64_t>;  // address in a peer's key, never dereferenced here

inline constexpr uint32_t kQpnMask = 0xffffff;
inline constexpr Qpn kGsiQpn{1};  // QP1: connection management
inline constexpr Qpn kMulticastQpn{0xffffff};

}  // namespace verbena
