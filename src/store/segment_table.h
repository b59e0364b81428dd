// SPDX-License-Identifier: Apache-2.0
// The segments of one object: runs in order of their index, without overlap; gaps between them are
// holes. Leaves of up to 64 runs in a map by their lowest index: every change costs the
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
  // Of these, those whose bytes are behind as well; and parts without chunks.
  [[nodiscard]] uint64_t chunks_in_both() const { return in_both_; }
  [[nodiscard]] uint64_t parts_behind() const { return behind_; }
  // Memory it takes, roughly.
  [[nodiscard]] uint64_t bytes() const;

  // The run that holds `index`, or the next one; null if there is none.
  [[nodiscard]] const Run* find(uint64_t index) const;

  // Calls each(run) for the runs within [first, end) that have chunks, clipped to it, in order,
  // until one answers false.
  template <typename Each>
  void for_each(uint64_t first, uint64_t end, Each each) const {
    for_all(first, end, [&](const Run& run) { return !run.has_chunks() || each(run); });
  }
  // The same for all runs.
  template <typename Each>
  void for_all(uint64_t first, uint64_t end, Each each) const {
    auto leaf = leaf_at(first);
    if (leaf == leaves_.end()) return;
    auto run = leaf->second.begin() + static_cast<ptrdiff_t>(first_behind(leaf->second, first));
    for (;;) {
      for (; run != leaf->second.end(); ++run) {
        if (run->index >= end || !each(clipped(*run, first, end))) return;
      }
      if (++leaf == leaves_.end()) return;
      run = leaf->second.begin();
    }
  }

  // The first one without chunks; only if there is one.
  [[nodiscard]] Run first_behind_store() const {
    Run found;
    for_all(0, kMaxIndex, [&](const Run& run) {
      found = run;
      return run.has_chunks();
    });
    return found;
  }
  // The part of a run that lies within [first, end).
  [[nodiscard]] static Run clipped(const Run& run, uint64_t first, uint64_t end);
  // Whether one run is a part of another: the same chunks at the same place.
  [[nodiscard]] static bool is_part(const Run& part, const Run& run);
  // One of it.
  [[nodiscard]] static Run part(const Run& run, uint32_t i) {
    return clipped(run, run.index + i, run.index + i + 1);
  }

  // What [first, end) is to become: these runs, which lie within it, in order. May be used again.
  class Change {
   public:
    Change() = default;

   private:
    friend class SegmentTable;
    uint64_t first_ = 0;
    uint64_t end_ = 0;
    // Where it goes: runs [from_, to_) of these leaves, to_ in the last one.
    Leaves::iterator first_leaf_;
    Leaves::iterator last_leaf_;
    size_t from_ = 0;
    size_t to_ = 0;
    std::vector<Run> runs_;                    // new, and what is left of those at the edges
    std::vector<Leaves::node_type> prepared_;  // new leaves, where one does not do
  };
  // How many runs there may be more afterwards.
  [[nodiscard]] static uint64_t growth(size_t runs) { return runs + 1; }
  void prepare(uint64_t first, uint64_t end, std::span<const Run> runs, Change& change);
  // Only for the change last prepared, with no other in between. dropped(run) is called for each
  // run with chunks, or part of one, that was there.
  template <typename Dropped>
  void apply(Change& change, Dropped dropped) noexcept {
    for (auto leaf = change.first_leaf_;; ++leaf) {
      const size_t from = leaf == change.first_leaf_ ? change.from_ : 0;
      const size_t to = leaf == change.last_leaf_ ? change.to_ : leaf->second.size();
      for (size_t i = from; i < to; ++i) {
        const Run gone = clipped(leaf->second[i], change.first_, change.end_);
        count(gone, ~uint64_t{0});
        if (gone.has_chunks()) dropped(gone);
      }
      if (leaf == change.last_leaf_) break;
    }
    replace(change);
  }

  // What is left of a run is behind as well now.
  void hold_in_both(const Run& run) noexcept;
  // Nothing is behind any more; no part was only there.
  void hold_here() noexcept {
    for (auto& [key, leaf] : leaves_) {
      for (Run& run : leaf) run.held = Held::kHere;
    }
    in_both_ = 0;
  }
  // All of it goes.
  template <typename Dropped>
  void clear(Dropped dropped) noexcept {
    for_each(0, kMaxIndex, [&](const Run& run) {
      dropped(run);
      return true;
    });
    leaves_.clear();
    runs_ = chunks_ = in_both_ = behind_ = 0;
  }
  void swap(SegmentTable& other) noexcept {
    leaves_.swap(other.leaves_);
    std::swap(runs_, other.runs_);
    std::swap(chunks_, other.chunks_);
    std::swap(in_both_, other.in_both_);
    std::swap(behind_, other.behind_);
  }

 private:
  // The first run of a leaf that does not end before `index`.
  [[nodiscard]] static size_t first_behind(const Leaf& leaf, uint64_t index);
  [[nodiscard]] Leaves::const_iterator leaf_at(uint64_t index) const;
  [[nodiscard]] Leaves::iterator leaf_at(uint64_t index);
  void replace(Change& change) noexcept;
  // A run more, or (with a sign of -1, as it wraps) less.
  void count(const Run& run, uint64_t sign) noexcept {
    (run.has_chunks() ? chunks_ : behind_) += sign * run.count;
    if (run.held == Held::kBoth) in_both_ += sign * run.count;
  }

  Leaves leaves_;
  uint64_t runs_ = 0;
  uint64_t chunks_ = 0;
  uint64_t in_both_ = 0;
  uint64_t behind_ = 0;
};

}  // namespace verbena::store
