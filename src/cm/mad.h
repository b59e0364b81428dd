// SPDX-License-Identifier: Apache-2.0
// A management datagram of class 7, connection management: the common header and one message.
// decode() gives it or the reason that the bytes are none; encode() makes the same bytes again
// (reserved bits, which it does not keep, are zero in what anybody sends).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "base/result.h"
#include "cm/messages.h"

namespace verbena::cm {

inline constexpr size_t kMadBytes = 256;
using MadBytes = std::span<const uint8_t, kMadBytes>;
using MadBuffer = std::array<uint8_t, kMadBytes>;

// Common MAD header, IBA 13.4.3.
//
//   31            24 23            16 15             8 7           0
//  +----------------+----------------+----------------+-------------+
//  | base version 1 |    class 7     |class version 2 |R|  method 3 |
//  +----------------+----------------+----------------+-------------+
//  |            status               |       class specific         |
//  +---------------------------------+------------------------------+
//  |                  transaction id, 8 bytes                       |
//  +---------------------------------+------------------------------+
//  |          attribute id           |           reserved           |
//  +---------------------------------+------------------------------+
//  |                     attribute modifier                         |
//  +----------------------------------------------------------------+
struct MadHeader {
  static constexpr uint32_t kBytes = 24;
  uint16_t status = 0;
  uint16_t class_specific = 0;
  uint64_t transaction = 0;  // an answer has that of the message it answers
  uint32_t modifier = 0;

  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep>;

struct Mad {
  MadHeader header{};
  Message message{};
};

enum class MadError : uint8_t {
  kLength,     // not 256 bytes
  kClass,      // not connection management, or of another version
  kMethod,     // not Send, the only method of the class
  kAttribute,  // a message we do not know (LAP and APR are for alternate paths, which RoCE has not)
  kCount,
};
[[nodiscard]] const char* to_string(MadError error);

[[nodiscard]] Result<Mad, MadError> decode(std::span<const uint8_t> bytes);

template <typename M>
void encode(const MadHeader& header, const M& message, MadBuffer& to);
void encode(const Mad& mad, MadBuffer& to);

}  // namespace verbena::cm
