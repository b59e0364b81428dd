// SPDX-License-Identifier: Apache-2.0
#include "store/record_encoding.h"

namespace verbena::store {
namespace encoding {
namespace {

[[nodiscard]] bool within(uint64_t first, uint64_t count) {
  return first <= kMaxIndex && count <= kMaxIndex - first;
}

}  // namespace

uint8_t form_of(uint64_t number, const Run& run) {
  if (!run.has_chunks()) return kWithoutChunks;
  const bool here = run.birth.owner == number && run.birth.index == run.index;
  return static_cast<uint8_t>((here ? 0 : kBornElsewhere) |
                              (run.held == Held::kBoth ? kHeldByBoth : 0));
}
size_t bytes_of(uint8_t form) {
  if (form == kWithoutChunks) return kRunBehindBytes;
  return (form & kBornElsewhere) == 0 ? kRunBornHereBytes : kRunBornElsewhereBytes;
}
size_t bytes_of(const std::optional<UnderView>& under) {
  return kBehindBytes + (under ? kUnderBytes + under->name.size() : 0);
}

Fault fault_of_object(uint64_t number, uint64_t size) {
  if (number == 0) return RecordFault::kNumber;
  if (size > kMaxSize) return RecordFault::kRange;
  return {};
}
Fault fault_of_name(uint64_t number, std::string_view name) {
  if (number == 0) return RecordFault::kNumber;
  if (!good_name(name)) return RecordFault::kName;
  return {};
}
Fault fault_of(const Run& run) {
  if (!run.has_chunks()) {
    const bool bare = run.chunk == 0 && run.birth == Birth{};
    if (bare && run.count > 0 && within(run.index, run.count)) return {};
    return RecordFault::kRun;
  }
  if (run.birth.owner == 0) return RecordFault::kNumber;
  if (run.count == 0 || run.count > kMaxRunChunks || !within(run.index, run.count) ||
      !within(run.chunk, run.count) || !within(run.birth.index, run.count)) {
    return RecordFault::kRun;
  }
  return {};
}
Fault fault_of(const CloneRecord& record) {
  if (record.from == 0 || record.to == 0) return RecordFault::kNumber;
  if (record.size > kMaxSize || !within(record.from_index, record.count) ||
      !within(record.to_index, record.count)) {
    return RecordFault::kRange;
  }
  const bool overlap = record.from_index < record.to_index + record.count &&
                       record.to_index < record.from_index + record.count;
  if (record.from == record.to && overlap) return RecordFault::kRange;
  return {};
}
Fault fault_of(const Behind& behind) {
  if (behind.version == 0 && behind.whole) return RecordFault::kBehind;
  if ((behind.next == 0) != (behind.tries == 0)) return RecordFault::kBehind;
  return {};
}
Fault fault_of(const Behind& behind, const std::optional<UnderView>& under) {
  if (const Fault fault = fault_of(behind)) return fault;
  if (!under) return {};
  if (behind.version == 0 || under->own.whole) return RecordFault::kBehind;
  if (!good_name(under->name)) return RecordFault::kName;
  return fault_of(under->own);
}
Fault fault_of(const FlushedRecord& record) {
  if (record.number == 0) return RecordFault::kNumber;
  return fault_of(record.behind, record.under);
}
Fault fault_of(const TakeRecord& record) {
  if (record.from == 0 || record.to == 0) return RecordFault::kNumber;
  if (record.from == record.to) return RecordFault::kRange;
  return {};
}
Fault fault_of(const ContentRecord& record) {
  if (record.number == 0) return RecordFault::kNumber;
  if (record.content.empty() || record.content.size() > kMaxContentBytes) {
    return RecordFault::kContent;
  }
  return {};
}
Fault fault_of(const ObjectRecord& record) {
  if (const Fault fault = fault_of_object(record.number, record.size)) return fault;
  if (!good_name(record.name)) return RecordFault::kName;
  if (record.chunks > kMaxIndex) return RecordFault::kRun;
  // Only with something behind are there runs without chunks.
  if (record.runs > (record.behind.version == 0 ? record.chunks : kMaxIndex)) {
    return RecordFault::kRun;
  }
  if (const Fault fault = fault_of(record.behind, record.under)) return fault;
  if (record.content.empty()) {
    if (record.crc != 0) return RecordFault::kContent;
  } else if (record.content.size() > kMaxContentBytes || record.runs != 0 ||
             record.content.size() != record.size) {
    return RecordFault::kContent;
  }
  return {};
}
Fault fault_of(const NameRecord& record) {
  if (!record.name.empty() && record.id != ObjectId{}) return RecordFault::kName;
  return fault_of_name(record.number, record.name);
}
Fault fault_of(const IdRecord& record) { return fault_of_object(record.number, 0); }

}  // namespace encoding

const char* name_of(RecordFault fault) {
  switch (fault) {
    case RecordFault::kShort:   return "short";
    case RecordFault::kType:    return "type";
    case RecordFault::kName:    return "name";
    case RecordFault::kRun:     return "run";
    case RecordFault::kNumber:  return "number";
    case RecordFault::kRange:   return "range";
    case RecordFault::kContent: return "content";
    case RecordFault::kBehind:  return "behind";
  }
  return "unknown";
}

}  // namespace verbena::store
