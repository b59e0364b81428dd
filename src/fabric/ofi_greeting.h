// SPDX-License-Identifier: Apache-2.0
// What two ends of a connection over libfabric tell each other on its control connection, before
// they use their endpoints:
//
//   0        4         5      6        8         16          20
//   | magic  | version | kind | length | nonce   | format    | provider | address | data |
//   | u32    | u8      | u8   | u16    | u64     | u32       | text     | text    | text |
//
// Big-endian; `length` is that of all that follows it; a text is a u16 and as many bytes. `nonce`
// is what messages to the sender of the greeting begin with. `format` and `address` are the
// endpoint's, as its provider has them. A rejection has a sentence for people in `data`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace verbena::fabric {

struct Greeting {
  enum class Kind : uint8_t { kConnect = 1, kAccept = 2, kReject = 3 };
  static constexpr size_t kMaxBytes = 1024;

  Kind kind = Kind::kConnect;
  uint64_t nonce = 0;
  uint32_t format = 0;
  std::string provider{};
  std::vector<uint8_t> address{};
  std::vector<uint8_t> data{};
  bool operator==(const Greeting&) const = default;
};

[[nodiscard]] std::vector<uint8_t> encode(const Greeting& greeting);
// Takes it off the front of `bytes`. Nothing: it is not complete. An error: it is none.
[[nodiscard]] Result<std::optional<Greeting>> take_greeting(std::vector<uint8_t>& bytes);

}  // namespace verbena::fabric
