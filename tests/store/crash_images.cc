// SPDX-License-Identifier: Apache-2.0
#include "crash_images.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "store/superblock.h"

namespace verbena::store::trial {
namespace {

constexpr uint32_t kLinesPerChunk = 4096 / kLineBytes;
using Choice = std::vector<uint32_t>;

class Chooser {
 public:
  Chooser(const Walk& walk, const Effort& effort, RandomSource& random,
          const std::function<bool(Image&&, const std::string&)>& look)
      : walk_(walk), dirty_(walk.dirty()), effort_(effort), random_(random), look_(look) {
    for (size_t i = 0; i < dirty_.size(); ++i) {
      newest_.push_back(static_cast<uint32_t>(dirty_[i].versions.size()));
      if (i == 0 || dirty_[i].line / kLinesPerChunk != dirty_[i - 1].line / kLinesPerChunk) {
        chunks_.push_back(i);
      }
    }
  }

  bool run() {
    const Choice oldest(dirty_.size());
    return show(oldest, "all old") && show(newest_, "all new") && sets_of_chunks() &&
           single_lines() && sets_of_lines() && samples();
  }

 private:
  bool show(const Choice& choice, const std::string& how) {
    if (!shown_.insert(choice).second) return true;
    return look_(walk_.image(choice), how);
  }
  [[nodiscard]] std::pair<size_t, size_t> lines_of(size_t chunk) const {
    return {chunks_[chunk], chunk + 1 < chunks_.size() ? chunks_[chunk + 1] : dirty_.size()};
  }

  bool sets_of_chunks() {
    const size_t n = chunks_.size();
    const bool all = n < 16 && (size_t{1} << n) <= effort_.chunk_sets;
    const uint64_t count = all ? uint64_t{1} << n : effort_.chunk_sets;
    for (uint64_t i = 0; i < count; ++i) {
      Choice choice(dirty_.size());
      // Sampled ones lack few, have few, or are a coin for each.
      const uint64_t bias = random_.below(3);
      for (size_t chunk = 0; chunk < n; ++chunk) {
        const uint64_t draw = random_.below(4);
        const bool fresh = all         ? (i >> chunk & 1) != 0
                           : bias == 0 ? draw != 0
                           : bias == 1 ? draw == 0
                                       : draw < 2;
        const auto [begin, end] = lines_of(chunk);
        for (size_t line = begin; fresh && line < end; ++line) choice[line] = newest_[line];
      }
      if (!show(choice, "a set of chunks")) return false;
    }
    return true;
  }

  bool single_lines() {
    std::vector<size_t> lines;
    if (dirty_.size() <= effort_.singles) {
      for (size_t i = 0; i < dirty_.size(); ++i) lines.push_back(i);
    } else {
      for (uint32_t i = 0; i < effort_.singles; ++i) {
        // The last line of a chunk has its birth and its checksums.
        const size_t chunk = random_.below(chunks_.size());
        const auto [begin, end] = lines_of(chunk);
        lines.push_back(random_.below(2) == 0 ? end - 1 : begin + random_.below(end - begin));
      }
    }
    for (const size_t line : lines) {
      Choice only(dirty_.size());
      only[line] = newest_[line];
      Choice all_but = newest_;
      all_but[line] = newest_[line] - 1;
      if (!show(only, "one line new") || !show(all_but, "one line old")) return false;
    }
    return true;
  }

  // Of one chunk, the others being all old or all new.
  bool sets_of_lines() {
    if (chunks_.empty()) return true;
    const size_t chunk = random_.below(chunks_.size());
    const auto [begin, end] = lines_of(chunk);
    const size_t n = end - begin;
    const bool all = n < 16 && (size_t{1} << n) <= effort_.line_sets;
    const uint64_t count = all ? uint64_t{1} << n : effort_.line_sets;
    for (uint64_t i = 0; i < count; ++i) {
      Choice choice = random_.below(2) == 0 ? newest_ : Choice(dirty_.size());
      for (size_t line = 0; line < n; ++line) {
        const bool fresh = all ? (i >> line & 1) != 0 : random_.below(2) == 0;
        choice[begin + line] = fresh ? newest_[begin + line] : 0;
      }
      if (!show(choice, "a set of lines of one chunk")) return false;
    }
    return true;
  }

  bool samples() {
    for (uint32_t i = 0; i < effort_.samples + effort_.torn && !dirty_.empty(); ++i) {
      Choice choice(dirty_.size());
      // Few lines old, or few new, or any.
      const uint64_t bias = random_.below(3);
      for (size_t line = 0; line < dirty_.size(); ++line) {
        if (bias == 0 && random_.below(16) != 0) {
          choice[line] = newest_[line];
        } else if (bias != 1 || random_.below(16) == 0) {
          choice[line] = static_cast<uint32_t>(random_.below(newest_[line] + 1));
        }
      }
      if (i < effort_.samples) {
        if (!show(choice, "each line at random")) return false;
        continue;
      }
      Image image = walk_.image(choice);
      const size_t line = random_.below(dirty_.size());
      walk_.tear(image, line, 1 + static_cast<uint32_t>(random_.below(newest_[line])), random_);
      if (!look_(std::move(image), "a torn line")) return false;
    }
    return true;
  }

  const Walk& walk_;
  const std::vector<Walk::DirtyLine>& dirty_;
  const Effort& effort_;
  RandomSource& random_;
  const std::function<bool(Image&&, const std::string&)>& look_;
  Choice newest_;
  std::vector<size_t> chunks_;  // where in dirty_ each begins
  std::set<Choice> shown_;
};

std::span<uint8_t, kChunkBytes> chunk_of(Image& image, uint64_t number) {
  return std::span<uint8_t, kChunkBytes>(image.bytes.data() + number * kChunkBytes, kChunkBytes);
}

void spoil(std::span<uint8_t, kChunkBytes> chunk, RandomSource& random) {
  for (size_t at = 0; at < chunk.size(); at += 8) {
    const uint64_t word = random.next();
    std::memcpy(chunk.data() + at, &word, 8);
  }
}

}  // namespace

bool for_each_image(const Walk& walk, const Effort& effort, RandomSource& random,
                    const std::function<bool(Image&&, const std::string&)>& look) {
  return Chooser(walk, effort, random, look).run();
}

const char* name_of(Copy copy) {
  switch (copy) {
    case Copy::kLogA:        return "copy a of log and checkpoint";
    case Copy::kLogB:        return "copy b of log and checkpoint";
    case Copy::kSuperblockA: return "superblock a";
    case Copy::kSuperblockB: return "superblock b";
  }
  return "?";
}

bool destroy(Image& image, const MediumShape& shape, Copy copy, RandomSource& random) {
  if (image.existing < 2) return false;
  const auto a = decode_superblock(chunk_of(image, 0));
  const auto b = decode_superblock(chunk_of(image, shape.chunks_per_block));
  if (copy == Copy::kSuperblockA) {
    spoil(chunk_of(image, 0), random);
    return b.has_value();
  }
  if (copy == Copy::kSuperblockB) {
    spoil(chunk_of(image, shape.chunks_per_block), random);
    return a.has_value();
  }
  if (!a.has_value() && !b.has_value()) return false;
  std::set<uint64_t> numbers;
  for (const auto& superblock : {a, b}) {
    if (!superblock.has_value()) continue;
    for (const auto& extents : {superblock->checkpoint, superblock->log}) {
      for (const Extent& extent : extents) {
        const uint64_t block = copy == Copy::kLogA ? extent.block_a : extent.block_b;
        for (uint32_t i = 0; i < extent.count; ++i) {
          numbers.insert(block * shape.chunks_per_block + extent.first + i);
        }
      }
    }
  }
  for (const uint64_t number : numbers) spoil(chunk_of(image, number), random);
  return true;
}

}  // namespace verbena::store::trial
