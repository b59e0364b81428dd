// SPDX-License-Identifier: Apache-2.0
// Numbers of bytes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::store_cli {

// "512", "10G", "1.5MiB", "2TB": K, M, G, T, P, E and KiB ... are powers of 1024; KB, MB ... of
// 1000.
[[nodiscard]] Result<uint64_t, std::string> parse_size(std::string_view text);

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: to the end
};
// "OFFSET:LENGTH", both sizes; "OFFSET:" goes to the end.
[[nodiscard]] Result<ByteRange, std::string> parse_range(std::string_view text);

// "0 B", "4048 B", "1.5 GiB": at most four digits.
[[nodiscard]] std::string human_size(uint64_t bytes);

}  // namespace verbena::store_cli
