// SPDX-License-Identifier: Apache-2.0
// What writing and reading records share: their types, the lengths of their parts, and what may
// neither be written nor read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "store/record.h"

namespace verbena::store::encoding {

enum class Type : uint8_t {
  kCreate = 1,
  kMap = 2,
  kTruncate = 3,
  kClone = 4,
  kDelete = 5,
  kRename = 6,
  kFlushed = 7,
  kCommit = 8,
  kContent = 9,
  kTable = 10,
  kObject = 11,
  kName = 12,
  kId = 13,
  kTake = 14,
};

// Where an object's bytes are: in chunks, or in its record. And whether what is behind it follows.
inline constexpr uint8_t kInChunks = 0;
inline constexpr uint8_t kInRecord = 1;
inline constexpr uint8_t kWithBehind = 2;
// Whether a run's birth is given, or follows from where it is; and whether its bytes are behind,
// too. Without chunks there are only index and count.
inline constexpr uint8_t kBornElsewhere = 1;
inline constexpr uint8_t kHeldByBoth = 2;
inline constexpr uint8_t kWithoutChunks = 4;

inline constexpr size_t kMapHeadBytes = 1 + 8 + 8 + 2;
inline constexpr size_t kRunBornHereBytes = 1 + 8 + 8 + 2 + 8;
inline constexpr size_t kRunBornElsewhereBytes = kRunBornHereBytes + 8 + 8;
inline constexpr size_t kRunBehindBytes = 1 + 8 + 4;
inline constexpr size_t kBehindBytes = 8 + 8 + 4 + 1;
inline constexpr size_t kUnderBytes = 8 + 8 + 4 + 16 + 2;  // and the name
// Of what is behind.
inline constexpr uint8_t kWhole = 1;
inline constexpr uint8_t kUnder = 2;
inline constexpr size_t kCreateHeadBytes = 1 + 8 + 16 + 8 + 2;
inline constexpr size_t kContentHeadBytes = 1 + 8 + 4 + 2;
inline constexpr size_t kObjectHeadBytes = 1 + 8 + 16 + 8 + 8 + 2 + 1;
inline constexpr size_t kInChunksBytes = 8 + 8 + 8;
inline constexpr size_t kContentInObjectBytes = 4 + 2;
static_assert(kMapHeadBytes + kRunBornElsewhereBytes <= kMaxMapOneBytes);
static_assert(kCreateHeadBytes + kMaxNameBytes <= kMaxCreateBytes);
static_assert(kObjectHeadBytes + kMaxNameBytes + kContentInObjectBytes + kMaxContentBytes +
                  kBehindBytes + kUnderBytes + kMaxNameBytes <=
              kMaxObjectBytes);
static_assert(1 + 8 + kBehindBytes + kUnderBytes + kMaxNameBytes <= kMaxFlushedBytes);

// There is one way to write a run.
[[nodiscard]] uint8_t form_of(uint64_t number, const Run& run);
[[nodiscard]] size_t bytes_of(uint8_t form);
// Of what is behind, and where.
[[nodiscard]] size_t bytes_of(const std::optional<UnderView>& under);

// What may not be written, and is a fault where it is read.
using Fault = std::optional<RecordFault>;
[[nodiscard]] Fault fault_of_object(uint64_t number, uint64_t size);
[[nodiscard]] Fault fault_of_name(uint64_t number, std::string_view name);
[[nodiscard]] Fault fault_of(const Run& run);
[[nodiscard]] Fault fault_of(const CloneRecord& record);
[[nodiscard]] Fault fault_of(const Behind& behind);
[[nodiscard]] Fault fault_of(const Behind& behind, const std::optional<UnderView>& under);
[[nodiscard]] Fault fault_of(const FlushedRecord& record);
[[nodiscard]] Fault fault_of(const TakeRecord& record);
[[nodiscard]] Fault fault_of(const ContentRecord& record);
[[nodiscard]] Fault fault_of(const ObjectRecord& record);
[[nodiscard]] Fault fault_of(const NameRecord& record);
[[nodiscard]] Fault fault_of(const IdRecord& record);

}  // namespace verbena::store::encoding
