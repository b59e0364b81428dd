// SPDX-License-Identifier: Apache-2.0
// The segments of one object: runs of chunks in order of their index, without overlap; what lies
// between is a hole. Leaves of up to 64 runs in a map by their lowest index: every change costs the
// logarithm of their number.
//
// A change is prepared, which may run out of memory and leaves everything as it was, and then
// applied, which cannot fail: between the two it goes into the log. The object's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "store/record.h"

namespace verbena::store {

class SegmentTable {
 private:
  using Leaf = std::vector<Run>;
  using Leaves = std::map<uint64_t, Leaf>;

 public:
  static constexpr size_t kLeafRuns = 64;

  [[nodiscard]] uint64_t runs() const { return runs_; }
  [[nodiscard]] uint64_t chunks() const { return chunks_; }
  // Memory it takes, roughly.
  [[nodiscard]] uint64_t bytes() const;

  // The run that holds `index`, or the next one; null if there is none.
  [[nodiscard]] const Run* find(uint64_t index) const;

  // Calls each(run) for the runs within [first, end), clipped to it, in order, until one answers
  // false.
  template <typename Each>
  void for_each(uint64_t first, uint64_t end, Each each) const {
    auto leaf = leaf_at(first);
    for (; leaf != leaves_.end(); ++leaf) {
      for (const Run& run : leaf->second) {
        if (run.index + run.count <= first) continue;
        if (run.index >= end) return;
        if (!each(clipped(run, first, end))) return;
      }
    }
  }

  // The part of a run that lies within [first, end).
  [[nodiscard]] static Run clipped(const Run& run, uint64_t first, uint64_t end);

  // What [first, end) is to become: these runs, which lie within it, in order. May be used again.
  class Change {
   public:
    Change() = default;

   private:
    friend class SegmentTable;
    uint64_t first_ = 0;
    uint64_t end_ = 0;
    std::vector<Run> runs_;                    // new, and what is left of those at the edges
    std::vector<Leaves::node_type> prepared_;  // new leaves, where one does not do
  };
  // How many runs there may be more afterwards.
  [[nodiscard]] static uint64_t growth(size_t runs) { return runs + 1; }
  void prepare(uint64_t first, uint64_t end, std::span<const Run> runs, Change& change);
  // Only for the change last prepared, with no other in between. dropped(run) is called for each
  // run, or part of one, that was there.
  template <typename Dropped>
  void apply(Change& change, Dropped dropped) noexcept {
    for_each(change.first_, change.end_, [&](const Run& run) {
      dropped(run);
      return true;
    });
    replace(change);
  }

  // All of it goes.
  template <typename Dropped>
  void clear(Dropped dropped) noexcept {
    for_each(0, kMaxIndex, [&](const Run& run) {
      dropped(run);
      return true;
    });
    leaves_.clear();
    runs_ = chunks_ = 0;
  }
  void swap(SegmentTable& other) noexcept {
    leaves_.swap(other.leaves_);
    std::swap(runs_, other.runs_);
    std::swap(chunks_, other.chunks_);
  }

 private:
  [[nodiscard]] Leaves::const_iterator leaf_at(uint64_t index) const;
  [[nodiscard]] Leaves::iterator leaf_at(uint64_t index);
  void replace(Change& change) noexcept;

  Leaves leaves_;
  uint64_t runs_ = 0;
  uint64_t chunks_ = 0;
};

}  // namespace verbena::store
