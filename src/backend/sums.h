// SPDX-License-Identifier: Apache-2.0
// The sums of one state of an object: a file with the CRC of each part, in pages of 4096 bytes.
// docs/backend.md specifies it.
//
//   page 0:
//   0        14       18    20        28     36            44           52        68      70
//   | magic  | format | 0   | version | size | modified_ns | file_      | id      | name  | name
//   |        | u32    | u16 | u64     | u64  | u64         | mtime i64  | 2 x u64 | bytes |
//   1072: CRCs of parts 0 to 754, u32 each      4092: check u32
//   page 1 and following:
//   0: CRCs of 1023 parts                       4092: check u32
//
// Big-endian. A CRC is kept as its XOR with that of a part of zeros, and the check of a page after
// the first one as its XOR with that of a page of zeros: so parts that are holes are zeros here,
// and pages of such parts are holes.
#pragma once

#include <array>
#include <cstdint>

#include "backend/tier.h"

namespace verbena::backend {

inline constexpr uint32_t kSumsFormat = 1;
inline constexpr size_t kSumsPageBytes = 4096;
inline constexpr uint64_t kFirstPageParts = 755;
inline constexpr uint64_t kPageParts = 1023;
using SumsPage = std::array<uint8_t, kSumsPageBytes>;

[[nodiscard]] constexpr uint64_t parts_of(uint64_t size) {
  return size / kPartBytes + (size % kPartBytes != 0 ? 1 : 0);
}

struct SumsHead {
  Key key;
  State state;
  int64_t file_modified_ns = 0;  // of the file that they belong to
  bool operator==(const SumsHead&) const = default;
};

enum class SumsFault : uint8_t {
  kCheck,    // the check of the page is wrong
  kMagic,    // something else
  kVersion,  // of a format that this program does not know
  kShape,    // fields that no writer writes
};
[[nodiscard]] const char* name_of(SumsFault fault);

// The fields of page 0; the CRCs in it stay.
void encode(const SumsHead& head, SumsPage& page);
[[nodiscard]] verbena::Result<SumsHead, SumsFault> decode_sums_head(const SumsPage& page);

// Where the CRC of a part is.
struct SumsPlace {
  uint64_t page = 0;
  size_t slot = 0;
  bool operator==(const SumsPlace&) const = default;
};
[[nodiscard]] SumsPlace place_of(uint64_t part);
[[nodiscard]] uint64_t first_part_of(uint64_t page);
[[nodiscard]] uint64_t parts_in(uint64_t page);
// How many pages there are for so many parts: one at least.
[[nodiscard]] uint64_t pages_for(uint64_t parts);

[[nodiscard]] uint32_t crc_at(const SumsPage& page, SumsPlace place);
void set_crc(SumsPage& page, SumsPlace place, uint32_t crc);
void set_hole(SumsPage& page, SumsPlace place);
// The check, when all else is written.
void seal(SumsPage& page, uint64_t index);
[[nodiscard]] bool is_sealed(const SumsPage& page, uint64_t index);

}  // namespace verbena::backend
