// SPDX-License-Identifier: Apache-2.0
// Reconstructs the history of objects from the remaining chunks of data and of the log, found in
// any order. For salvage: a chunk of an object may have been written for another object that does
// not exist any more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "store/chunk.h"
#include "store/record.h"

namespace verbena::store {

class RawHistory {
 public:
  struct Chunk {
    uint64_t number = 0;  // as it was found
    uint64_t txn = 0;
    uint16_t length = 0;
  };
  using Object = std::map<uint64_t, Chunk>;  // by index

  void wrote(const ChunkHead& head, uint64_t number);
  // The records of a log chunk, or of a checkpoint's, in their order.
  void said(const ChunkHead& head, std::span<const Record> records);
  // Objects by number as all of it leaves them, those that were deleted, too.
  struct Outcome {
    std::map<uint64_t, Object> objects;
    std::map<uint64_t, std::string> contents;  // of those whose bytes are in records
    bool all = true;  // otherwise objects share so much that some of it was left out
  };
  [[nodiscard]] Outcome objects() const;

 private:
  // An object's few bytes, as a record has them.
  struct Content {
    uint64_t number = 0;
    uint64_t time_ns = 0;  // 0: not known
    std::string bytes;
  };
  using Change = std::variant<TruncateRecord, CloneRecord, Content>;
  // A checkpoint's: chunks that an object has of another.
  struct Shared {
    uint64_t txn = 0;
    uint64_t number = 0;
    Run run;
  };
  struct Write {
    uint64_t number = 0;
    uint16_t length = 0;
    Birth birth;
  };
  using Place = std::pair<uint64_t, uint64_t>;  // of a log chunk: epoch and sequence
  struct LogChunk {
    std::optional<uint64_t> first_commit;
    std::vector<Change> open;  // of a transaction that ends in a later chunk
  };
  void table_said(const ChunkHead& head, std::span<const Record> records);
  template <typename Found>
  void for_each_end(const Found& found) const;

  std::unordered_map<uint64_t, Write> writes_;  // by the chunk's id
  std::vector<Shared> shared_;
  std::vector<std::pair<uint64_t, Change>> changes_;  // with their transactions
  std::map<Place, LogChunk> log_;
};

}  // namespace verbena::store
