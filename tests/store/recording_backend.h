// SPDX-License-Identifier: Apache-2.0
// A medium in plain memory that records what becomes of it: stores (found by comparing memory with
// what it was), flushes and fences, and marks of whoever watches. From a recording, a Walk tells
// for each moment what a power cut could have left.
//
//   store ... flush ... fence       a line of 64 bytes holds, after a cut, any version that it had
//     v0 v1    (v1)      v1..       since the one that was flushed before the last fence
//
// A store cannot be left without closing it; kill() takes the medium away from it instead: what it
// does afterwards goes nowhere. Memory is as it was then, and so is what is durable; what was
// flushed and waits for a fence is forgotten, for it was the process that knew.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "medium/backend.h"

namespace verbena::store::trial {

inline constexpr size_t kLineBytes = 64;
using Line = std::array<uint8_t, kLineBytes>;

struct MediumShape {
  uint32_t chunks_per_block = 16;
  uint32_t blocks = 24;
  [[nodiscard]] size_t block_bytes() const { return size_t{chunks_per_block} * 4096; }
  [[nodiscard]] size_t bytes() const { return block_bytes() * blocks; }
};

// What a medium holds when there is no power.
struct Image {
  std::vector<uint8_t> bytes;  // of the blocks that exist
  uint32_t existing = 0;       // blocks
};

struct Event {
  enum class Kind : uint8_t { kStores, kFlush, kFence, kMark, kKill };
  Kind kind = Kind::kMark;
  uint32_t first = 0;     // stores: of `versions`; flush: a line; mark: what was given
  uint32_t count = 0;     // likewise
  uint32_t existing = 0;  // blocks, from now on
  bool closed = false;    // mark: what was given
};
struct Version {
  uint32_t line = 0;
  Line bytes{};
};
struct Recording {
  Image start;  // with all blocks, those too that do not exist yet
  size_t block_bytes = 0;
  std::vector<Event> events;
  std::vector<Version> versions;
};

class RecordingMedium {
 public:
  // Empty: no blocks, and what those that are made will hold is anything.
  RecordingMedium(MediumShape shape, uint64_t garbage_seed);
  ~RecordingMedium();
  RecordingMedium(const RecordingMedium&) = delete;
  RecordingMedium& operator=(const RecordingMedium&) = delete;

  // Holds this, all of it durable, and forgets what was recorded. Without `record` nothing is.
  void restore(const Image& image, bool record);
  // One at a time.
  [[nodiscard]] std::unique_ptr<medium::Backend> open_backend();
  void kill();
  // Right before the n-th flush or fence from now on (1: the next), when of the lines that were
  // stored to since the last one only some are. 0: not at all.
  // `storing`: a seed for what was being stored at that moment, and is not; none: all of it is.
  void kill_at(uint32_t n, std::optional<uint64_t> storing);
  // Since the last open_backend().
  [[nodiscard]] bool killed();
  void mark(uint32_t first, uint32_t count, bool closed = false);
  [[nodiscard]] const Recording& recording() const { return recording_; }
  [[nodiscard]] const MediumShape& shape() const { return shape_; }

 private:
  class Handle;
  class Memory;
  void kill_locked();
  void count_down();
  void note(Event event);
  void observe(size_t first_line, size_t lines);
  void observe_all();

  const MediumShape shape_;
  std::shared_ptr<Memory> memory_;  // shared with the backend that is open
  std::vector<uint8_t> shadow_;
  uint32_t existing_ = 0;
  bool recording_on_ = true;
  bool killed_ = false;
  uint32_t kill_at_ = 0;
  std::optional<uint64_t> storing_;
  Recording recording_;
  std::mutex mutex_;  // guards all above
};

// Goes through a recording and knows at each moment what may be on the medium.
class Walk {
 public:
  explicit Walk(const Recording& recording);
  // To the next moment right before what may be there changes, the end being the last. False behind
  // it.
  [[nodiscard]] bool next();

  struct DirtyLine {
    uint32_t line = 0;
    std::vector<uint32_t> versions;  // beside the durable one, which may be there as well; in order
    size_t flushed = 0;              // of these, by flushes that wait for a fence
  };
  [[nodiscard]] const std::vector<DirtyLine>& dirty() const { return dirty_; }  // in order of line
  // What was given to the last mark.
  [[nodiscard]] const Event& mark() const { return mark_; }
  // For each dirty line, in order: 0 is the durable version, n the n-th since.
  [[nodiscard]] Image image(std::span<const uint32_t> choice) const;
  // Instead of what `choice` gives, a line of words of 8 bytes of two versions each.
  void tear(Image& image, size_t dirty_line, uint32_t choice, RandomSource& random) const;

 private:
  void take(const Event& event);
  const Recording& recording_;
  Image base_;  // what is durable
  std::vector<DirtyLine> dirty_;
  Event mark_;
  size_t at_ = 0;
  bool begun_ = false;
};

}  // namespace verbena::store::trial
