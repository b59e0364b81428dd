// SPDX-License-Identifier: Apache-2.0
// Which of the many images that a power cut may leave are looked at: all of them where they are
// few, otherwise the extremes and a sample.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/random.h"
#include "recording_backend.h"

namespace verbena::store::trial {

// How many, at one moment, of each kind.
struct Effort {
  uint32_t singles = 12;     // one dirty line new, or old, alone
  uint32_t chunk_sets = 32;  // sets of whole chunks
  uint32_t line_sets = 16;   // sets of lines of one chunk
  uint32_t samples = 8;      // each line by itself
  uint32_t torn = 4;         // and one of them torn, at words of 8 bytes
};

// Calls `look` with each image and how it was made, until it answers false. Answers that as well.
bool for_each_image(const Walk& walk, const Effort& effort, RandomSource& random,
                    const std::function<bool(Image&&, const std::string&)>& look);

// One copy of what is kept twice.
enum class Copy : uint8_t { kLogA, kLogB, kSuperblockA, kSuperblockB };
inline constexpr Copy kCopies[] = {Copy::kLogA, Copy::kLogB, Copy::kSuperblockA,
                                   Copy::kSuperblockB};
[[nodiscard]] const char* name_of(Copy copy);
// Makes garbage of it. False where the other one is not whole either, or there is nothing yet: then
// nothing is promised.
[[nodiscard]] bool destroy(Image& image, const MediumShape& shape, Copy copy, RandomSource& random);

}  // namespace verbena::store::trial
