// SPDX-License-Identifier: Apache-2.0
// A store to be destroyed: its files, what it must contain, and what each of its chunks is for.
// With it what the files held in the middle of its life, and those of another store of the same
// history.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image.h"
#include "model.h"
#include "store/store.h"

namespace verbena::store::trial {

inline constexpr uint32_t kSampleChunksPerBlock = 16;

// Where a chunk of data is used.
struct Use {
  ObjectId object;
  uint64_t index = 0;
  uint64_t number = 0;  // of the object
  Birth birth;
};
// A chunk of the log, of the checkpoint, or a superblock.
struct Twice {
  enum class Kind : uint8_t { kSuperblock, kCheckpoint, kLog, kLastLog };
  Kind kind = Kind::kLog;
  uint64_t a = 0;
  uint64_t b = 0;
  bool dispensable = false;  // names or ids of a table, which objects have as well
};

struct Sample {
  Model model;
  uint32_t tag = 0;
  FilesImage now;                             // closed in order
  FilesImage older;                           // flushed, in the middle of its life
  FilesImage other;                           // of a store with another tag
  std::map<uint64_t, std::vector<Use>> data;  // by chunk
  std::vector<Twice> twice;
  std::vector<uint64_t> free;
  // Chunks of data whose place held another one before.
  std::vector<uint64_t> reused;
};

// Works in this folder, which is left with files of no meaning.
[[nodiscard]] Sample make_sample(uint64_t seed, const std::string& folder);

}  // namespace verbena::store::trial
