// SPDX-License-Identifier: Apache-2.0
// What must be true of a damaged store: found by comparing its chunks with those that were written.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "damage.h"
#include "sample.h"

namespace verbena::store::trial {

// What users must see: the model's contents, but for chunks that are lost.
struct Truth {
  Model model;
  // By object and index: the chunk that is bad there.
  std::map<std::pair<ObjectId, uint64_t>, uint64_t> lost;
  [[nodiscard]] std::set<uint64_t> bad_chunks() const;
};

struct Expectation {
  bool opens = true;     // for reading
  bool whole = true;     // otherwise names or ids of a table are lost, and it can only be read
  bool writable = true;  // if it opens
  bool clean = true;     // closed in order, for certain
  Truth truth;
  std::set<uint64_t> bad_copies;  // of log, checkpoint and superblocks
  std::set<uint64_t> incomplete;  // and those that may be the work of a crash
};

[[nodiscard]] Expectation expect(const Sample& sample, const FilesImage& image);

// Each of these answers with a sentence about what is wrong, or nothing.

// Every chunk of every object, and ranges across them.
[[nodiscard]] std::string check_contents(const Store& store, const Truth& truth,
                                         RandomSource& random);
// Whether an error names this damage: where it is, and what is there instead of what.
[[nodiscard]] std::string check_damage(const Error& error, ObjectId object, uint64_t index,
                                       uint64_t chunk);
// Whether `expected` and `actual` are what the chunk and the log say.
[[nodiscard]] std::string check_fields(const Damage& damage, const Use& use,
                                       std::span<const uint8_t, kChunkBytes> chunk, uint32_t tag);
// Each of these chunks once, nothing else.
[[nodiscard]] std::string check_scrub(const ScrubReport& report, const Truth& truth,
                                      const std::set<uint64_t>& copies);

}  // namespace verbena::store::trial
