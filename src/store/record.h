// SPDX-License-Identifier: Apache-2.0
// The records of the log and of checkpoints: changes of objects, as bytes. Records are consecutive
// in the data of a log chunk and never cross chunks; `length` of the chunk is the end of the last
// one. A transaction consists of all records up to its COMMIT, and may span several chunks.
//
//   | type u8 | body |        docs/store-format.md has the bodies
//
// The bytes that are read are not trusted: each field is checked, and the reader returns a reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "store/chunk.h"
#include "store/error.h"

namespace verbena::store {

inline constexpr size_t kMaxNameBytes = 1000;
inline constexpr uint32_t kMaxRunChunks = 2048;
// An object of at most so many bytes may be kept in the log and the tables, without a chunk.
inline constexpr size_t kMaxContentBytes = 512;
// Chunks' indices in an object, and chunks' numbers, are below this.
inline constexpr uint64_t kMaxIndex = uint64_t{1} << 48;
inline constexpr uint64_t kMaxSize = kMaxIndex * kDataBytes;  // of an object, bytes

// How a part of an object is related to what is behind the store, if anything is.
enum class Held : uint8_t {
  kHere,    // here alone, as far as is known
  kBoth,    // the same bytes are behind
  kBehind,  // only there: no chunks
};

// Consecutive chunks of one birth that hold consecutive parts of an object; or, without chunks and
// birth, parts that are only behind the store.
struct Run {
  uint64_t index = 0;  // of the first, in this object
  uint64_t chunk = 0;  // number of the first
  uint32_t count = 0;  // 1 to kMaxRunChunks; without chunks any but 0
  Held held = Held::kHere;
  Birth birth;  // of the first; the index of the others counts up
  bool operator==(const Run&) const = default;
  [[nodiscard]] bool has_chunks() const { return held != Held::kBehind; }
};

struct CreateRecord {
  uint64_t number = 0;  // internal, never reused, not 0
  ObjectId id;
  uint64_t time_ns = 0;   // since 1970
  std::string_view name;  // may be empty; points into the chunk
  bool operator==(const CreateRecord&) const = default;
};
// The object's chunks [run.index, run.index + run.count) are these now, and its size is `size`.
struct MapRecord {
  uint64_t number = 0;
  uint64_t size = 0;
  std::vector<Run> runs;
  bool operator==(const MapRecord&) const = default;
};
// The size is this now, and chunks that lie wholly behind it are not the object's any more.
struct TruncateRecord {
  uint64_t number = 0;
  uint64_t size = 0;
  bool operator==(const TruncateRecord&) const = default;
};
// Chunks [from_index, + count) of one object are shared at [to_index, + count) of the other, holes
// too; the other's size is `size` now. The two may be one object, if the ranges do not overlap.
// A count of 0 moves the size alone.
struct CloneRecord {
  uint64_t from = 0;
  uint64_t from_index = 0;
  uint64_t to = 0;
  uint64_t to_index = 0;
  uint64_t count = 0;
  uint64_t size = 0;
  bool operator==(const CloneRecord&) const = default;
};
struct DeleteRecord {
  uint64_t number = 0;
  bool operator==(const DeleteRecord&) const = default;
};
struct RenameRecord {
  uint64_t number = 0;
  std::string_view name;  // empty: has none any more
  bool operator==(const RenameRecord&) const = default;
};
// Ends a transaction. Log chunks up to `watermark` were durable when this was written.
struct CommitRecord {
  uint64_t txn = 0;
  uint64_t watermark = 0;
  uint64_t time_ns = 0;  // what the transaction changed was modified now
  bool operator==(const CommitRecord&) const = default;
};
// The object's bytes are these now, and it has no chunks.
struct ContentRecord {
  uint64_t number = 0;
  uint32_t crc = 0;          // of the bytes, as they came from the client
  std::string_view content;  // 1 to kMaxContentBytes; points into the chunk
  bool operator==(const ContentRecord&) const = default;
};
// What is behind the store of an object. 0: nothing.
struct Behind {
  uint64_t version = 0;  // what kBoth and kBehind refer to
  // Versions [next, next + tries) were begun there, and any of them may be there by now: its
  // kBoth and kBehind are the same, and the rest of it is kHere.
  uint64_t next = 0;
  uint32_t tries = 0;
  // What is not kHere is as there: holes, the end, and content. Otherwise only runs are.
  bool whole = false;
  bool operator==(const Behind&) const = default;
  [[nodiscard]] bool may_be(uint64_t found) const {
    return found == version || found - next < tries;
  }
};
// Where that is, if it is not under the object's own name (or id): another name or id, which it had
// or took over. And what may be under its own.
struct UnderView {
  std::string_view name;  // empty: by the id; points into the chunk
  ObjectId id;
  Behind own;  // never whole
  bool operator==(const UnderView&) const = default;
};
// Replaces what was known of it.
struct FlushedRecord {
  uint64_t number = 0;
  Behind behind;
  std::optional<UnderView> under{};  // only with a version
  bool operator==(const FlushedRecord&) const = default;
};
// All that one object has is the other's now: its size, its runs as they are, or its content. It is
// gone.
struct TakeRecord {
  uint64_t from = 0;
  uint64_t to = 0;
  bool operator==(const TakeRecord&) const = default;
};
// In tables alone, the only record of the first chunk: how many chunks the sections have.
struct TableRecord {
  uint64_t next_number = 0;  // of objects, when it was written
  std::array<uint32_t, 4> chunks{};
  bool operator==(const TableRecord&) const = default;
};
// In tables alone: an object's state.
struct ObjectRecord {
  uint64_t number = 0;
  ObjectId id;
  uint64_t created_ns = 0;
  uint64_t modified_ns = 0;
  uint64_t size = 0;
  uint64_t runs = 0;    // in the MAPs of the table
  uint64_t chunks = 0;  // that they have
  std::string_view name;
  uint32_t crc = 0;          // of the content
  std::string_view content;  // empty: in chunks; otherwise `size` bytes
  Behind behind{};
  std::optional<UnderView> under{};
  bool operator==(const ObjectRecord&) const = default;
};
// In tables alone: where to look for an object. One without a name is listed by its id.
struct NameRecord {
  std::string_view name;
  ObjectId id;  // 0:0 if there is a name
  uint64_t number = 0;
  bool operator==(const NameRecord&) const = default;
};
struct IdRecord {
  ObjectId id;
  uint64_t number = 0;
  bool operator==(const IdRecord&) const = default;
};

using Record = std::variant<CreateRecord, MapRecord, TruncateRecord, CloneRecord, DeleteRecord,
                            RenameRecord, FlushedRecord, CommitRecord, ContentRecord, TableRecord,
                            ObjectRecord, NameRecord, IdRecord, TakeRecord>;

// The number of the object that a record changes; 0: none.
[[nodiscard]] inline uint64_t changed_by(const Record& record) {
  return std::visit(
      [](const auto& one) -> uint64_t {
        if constexpr (requires { one.number; }) {
          return one.number;
        } else if constexpr (requires { one.to; }) {
          return one.to;
        } else {
          return 0;
        }
      },
      record);
}

enum class RecordFault : uint8_t {
  kShort,    // ends within a record
  kType,     // no such type
  kName,     // see good_name
  kRun,      // no chunks, too many, or indices or numbers beyond bounds
  kNumber,   // object number 0
  kRange,    // a clone onto itself, or a size or range beyond bounds
  kContent,  // none, too many bytes, or not as many as the object has
  kBehind,   // a version 0 with more to say, or parts behind of an object that is not there
};
[[nodiscard]] const char* name_of(RecordFault fault);

// Appends records to `room` (a log chunk's data); each answers false, and writes nothing, if it
// does not fit. What the reader would refuse may not be written: that is checked.
class RecordWriter {
 public:
  explicit RecordWriter(std::span<uint8_t> room) : room_(room) {}
  [[nodiscard]] size_t used() const { return used_; }
  [[nodiscard]] size_t left() const { return room_.size() - used_; }

  [[nodiscard]] bool create(const CreateRecord& record);
  // As many of the runs as fit; how many those were. None fit: 0, and nothing is written.
  [[nodiscard]] size_t map(uint64_t number, uint64_t size, std::span<const Run> runs);
  [[nodiscard]] bool truncate(const TruncateRecord& record);
  [[nodiscard]] bool clone(const CloneRecord& record);
  [[nodiscard]] bool remove(const DeleteRecord& record);
  [[nodiscard]] bool rename(const RenameRecord& record);
  [[nodiscard]] bool flushed(const FlushedRecord& record);
  [[nodiscard]] bool take(const TakeRecord& record);
  [[nodiscard]] bool commit(const CommitRecord& record);
  [[nodiscard]] bool content(const ContentRecord& record);
  [[nodiscard]] bool table(const TableRecord& record);
  [[nodiscard]] bool object(const ObjectRecord& record);
  [[nodiscard]] bool name(const NameRecord& record);
  [[nodiscard]] bool id(const IdRecord& record);

 private:
  // So many bytes, if they are there.
  [[nodiscard]] uint8_t* claim(size_t bytes);
  template <typename Type, typename... Words>
  [[nodiscard]] bool small(Type type, Words... words);

  std::span<uint8_t> room_;
  size_t used_ = 0;
};
// What one may take at most: a MAP of one run, a CREATE of the longest name.
inline constexpr size_t kMaxMapOneBytes = 64;
inline constexpr size_t kMaxCreateBytes = 64 + kMaxNameBytes;
inline constexpr size_t kMaxObjectBytes = 140 + 2 * kMaxNameBytes + kMaxContentBytes;
inline constexpr size_t kMaxFlushedBytes = 70 + kMaxNameBytes;
inline constexpr size_t kMaxSmallBytes = 64;  // all others but RENAME, which is below CREATE

class RecordReader {
 public:
  explicit RecordReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] bool done() const { return rest_.empty(); }
  // The next; only if not done(). After a fault there is no next.
  [[nodiscard]] verbena::Result<Record, RecordFault> next();

 private:
  std::span<const uint8_t> rest_;
};

// Well-formed UTF-8 without control characters (nor zero bytes), at most kMaxNameBytes. Empty is
// good.
[[nodiscard]] bool good_name(std::string_view name);

}  // namespace verbena::store
