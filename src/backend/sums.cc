// SPDX-License-Identifier: Apache-2.0
#include "backend/sums.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/endian.h"
#include "store/crc_parts.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

constexpr std::string_view kMagic("VERBENA SUMS\n\0", 14);
constexpr size_t kFormatAt = kMagic.size();
constexpr size_t kReservedAt = kFormatAt + 4;
constexpr size_t kVersionAt = kReservedAt + 2;
constexpr size_t kSizeAt = kVersionAt + 8;
constexpr size_t kModifiedAt = kSizeAt + 8;
constexpr size_t kFileModifiedAt = kModifiedAt + 8;
constexpr size_t kIdAt = kFileModifiedAt + 8;
constexpr size_t kNameLengthAt = kIdAt + 16;
constexpr size_t kNameAt = kNameLengthAt + 2;
constexpr size_t kFirstCrcAt = 1072;
constexpr size_t kCheckAt = kSumsPageBytes - 4;
static_assert(kNameAt + store::kMaxNameBytes <= kFirstCrcAt);
static_assert((kCheckAt - kFirstCrcAt) / 4 == kFirstPageParts && kCheckAt / 4 == kPageParts);

[[nodiscard]] uint32_t zero_part_crc() {
  static const uint32_t crc = store::crc_of_zeros(kPartBytes);
  return crc;
}

[[nodiscard]] uint32_t check_of(const SumsPage& page, uint64_t index) {
  static const uint32_t zeros = store::crc_of_zeros(kCheckAt);
  return store::crc_of(std::span(page).first(kCheckAt)) ^ (index == 0 ? 0 : zeros);
}

[[nodiscard]] size_t offset_of(SumsPlace place) {
  return (place.page == 0 ? kFirstCrcAt : 0) + place.slot * 4;
}

}  // namespace

const char* name_of(SumsFault fault) {
  switch (fault) {
    case SumsFault::kCheck:   return "its checksum is wrong";
    case SumsFault::kMagic:   return "it is not a file of checksums";
    case SumsFault::kVersion: return "its format is not known";
    case SumsFault::kShape:   return "its fields contradict each other";
  }
  return "unknown";
}

void encode(const SumsHead& head, SumsPage& page) {
  VERBENA_CHECK(store::good_name(head.key.name));
  uint8_t* const p = page.data();
  std::memset(p, 0, kFirstCrcAt);
  std::ranges::copy(kMagic, p);
  store_be32(p + kFormatAt, kSumsFormat);
  store_be64(p + kVersionAt, head.state.version);
  store_be64(p + kSizeAt, head.state.size);
  store_be64(p + kModifiedAt, head.state.modified_ns);
  store_be64(p + kFileModifiedAt, static_cast<uint64_t>(head.file_modified_ns));
  store_be64(p + kIdAt, head.key.id.high);
  store_be64(p + kIdAt + 8, head.key.id.low);
  store_be16(p + kNameLengthAt, static_cast<uint16_t>(head.key.name.size()));
  std::ranges::copy(head.key.name, p + kNameAt);
}

verbena::Result<SumsHead, SumsFault> decode_sums_head(const SumsPage& page) {
  const uint8_t* const p = page.data();
  if (!is_sealed(page, 0)) return fail(SumsFault::kCheck);
  if (std::memcmp(p, kMagic.data(), kMagic.size()) != 0) return fail(SumsFault::kMagic);
  if (load_be32(p + kFormatAt) != kSumsFormat) return fail(SumsFault::kVersion);
  const size_t length = load_be16(p + kNameLengthAt);
  if (length > store::kMaxNameBytes) return fail(SumsFault::kShape);
  SumsHead head{.key = {.name = std::string(reinterpret_cast<const char*>(p + kNameAt), length),
                        .id = {load_be64(p + kIdAt), load_be64(p + kIdAt + 8)}},
                .state = {.version = load_be64(p + kVersionAt),
                          .size = load_be64(p + kSizeAt),
                          .modified_ns = load_be64(p + kModifiedAt)},
                .file_modified_ns = static_cast<int64_t>(load_be64(p + kFileModifiedAt))};
  const auto rest = std::span(page).subspan(kNameAt + length, kFirstCrcAt - kNameAt - length);
  const bool zeros = std::ranges::all_of(rest, [](uint8_t byte) { return byte == 0; });
  if (!zeros || load_be16(p + kReservedAt) != 0 || head.state.version == 0 ||
      head.state.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
      !store::good_name(head.key.name)) {
    return fail(SumsFault::kShape);
  }
  return head;
}

SumsPlace place_of(uint64_t part) {
  if (part < kFirstPageParts) return {0, static_cast<size_t>(part)};
  part -= kFirstPageParts;
  return {part / kPageParts + 1, static_cast<size_t>(part % kPageParts)};
}

uint64_t first_part_of(uint64_t page) {
  return page == 0 ? 0 : kFirstPageParts + (page - 1) * kPageParts;
}

uint64_t parts_in(uint64_t page) { return page == 0 ? kFirstPageParts : kPageParts; }

uint64_t pages_for(uint64_t parts) { return parts == 0 ? 1 : place_of(parts - 1).page + 1; }

uint32_t crc_at(const SumsPage& page, SumsPlace place) {
  return load_be32(page.data() + offset_of(place)) ^ zero_part_crc();
}

void set_crc(SumsPage& page, SumsPlace place, uint32_t crc) {
  store_be32(page.data() + offset_of(place), crc ^ zero_part_crc());
}

void set_hole(SumsPage& page, SumsPlace place) { store_be32(page.data() + offset_of(place), 0); }

void seal(SumsPage& page, uint64_t index) {
  store_be32(page.data() + kCheckAt, check_of(page, index));
}

bool is_sealed(const SumsPage& page, uint64_t index) {
  return load_be32(page.data() + kCheckAt) == check_of(page, index);
}

}  // namespace verbena::backend
