// SPDX-License-Identifier: Apache-2.0
// Reads the chunks in the files of a store without its log or superblock, for salvage.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "store/chunk.h"
#include "store/raw_history.h"
#include "store/store.h"

namespace verbena::store {

// What a look at all chunks found.
struct RawFindings {
  struct Name {
    std::optional<ObjectId> id;
    std::string name;
    uint64_t sequence = 0;  // of the log chunk that says so
    uint64_t table = 0;     // txn of the table that does
  };
  std::map<uint64_t, RawHistory::Object> objects;  // by number
  std::map<uint64_t, std::string> contents;        // of those without chunks
  std::unordered_map<uint64_t, Name> names;
  std::set<uint64_t> deleted;
  bool all_shared = true;  // false: clones lack chunks, because there were too many shared ones
  uint64_t all = 0;        // chunks looked at
  uint64_t bad = 0;        // neither valid nor empty
};

class RawChunks {
 public:
  [[nodiscard]] static Result<RawChunks> open(const std::vector<std::string>& folders);
  // What is not there, a sentence each: folders without files, files that are missing or were cut.
  [[nodiscard]] const std::vector<std::string>& lost() const { return lost_; }
  [[nodiscard]] Result<RawFindings> scan(const Progress& progress);
  // The data of a chunk, verified again; until the next call.
  [[nodiscard]] Result<std::span<const uint8_t, kDataBytes>> data(uint64_t number);

 private:
  struct File {
    UniqueFd fd;
    uint64_t chunks = 0;
  };
  [[nodiscard]] Result<void> read(uint64_t number, uint32_t count);
  void note(const uint8_t* chunk, uint64_t number);

  struct OfStore {
    uint64_t chunks = 0;
    RawHistory history;
    RawFindings findings;
  };
  static void note_log(const uint8_t* chunk, OfStore& store);

  void note_missing(const std::string& folder, std::set<std::string> names);

  std::vector<std::string> lost_;
  std::vector<File> files_;  // numbers count through all of them
  std::vector<uint8_t> buffer_;
  // By the tag of the store: files may have been another's before.
  std::map<uint32_t, OfStore> stores_;
  uint64_t bad_ = 0;
};

}  // namespace verbena::store
