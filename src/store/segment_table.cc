// SPDX-License-Identifier: Apache-2.0
#include "store/segment_table.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::store {
namespace {

// What a leaf costs beside its runs: the node of the map, and what the heap adds to both.
constexpr uint64_t kLeafOverhead = 112;

}  // namespace

Run SegmentTable::clipped(const Run& run, uint64_t first, uint64_t end) {
  const uint64_t from = std::max(run.index, first);
  const uint64_t to = std::min(run.index + run.count, end);
  const uint64_t skip = from - run.index;
  Run part = run;
  part.index += skip;
  if (run.has_chunks()) {
    part.chunk += skip;
    part.birth.index += skip;
  }
  part.count = static_cast<uint32_t>(to - from);
  return part;
}

uint64_t SegmentTable::bytes() const {
  // Half of the room in a leaf is empty at worst, after splitting.
  uint64_t sum = 0;
  if (leaves_.size() <= 1) {
    for (const auto& [key, leaf] : leaves_) sum += leaf.capacity() * sizeof(Run) + kLeafOverhead;
    return sum;
  }
  return leaves_.size() * (kLeafRuns * sizeof(Run) + kLeafOverhead);
}

SegmentTable::Leaves::const_iterator SegmentTable::leaf_at(uint64_t index) const {
  auto leaf = leaves_.upper_bound(index);
  return leaf == leaves_.begin() ? leaf : std::prev(leaf);
}

SegmentTable::Leaves::iterator SegmentTable::leaf_at(uint64_t index) {
  auto leaf = leaves_.upper_bound(index);
  return leaf == leaves_.begin() ? leaf : std::prev(leaf);
}

size_t SegmentTable::first_behind(const Leaf& leaf, uint64_t index) {
  size_t low = 0;
  size_t high = leaf.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (leaf[middle].index + leaf[middle].count <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const Run* SegmentTable::find(uint64_t index) const {
  for (auto leaf = leaf_at(index); leaf != leaves_.end(); ++leaf) {
    const size_t at = first_behind(leaf->second, index);
    if (at < leaf->second.size()) return &leaf->second[at];
  }
  return nullptr;
}

// Runs are split and dropped, and never joined: what is left of one lies within it.
void SegmentTable::hold_in_both(const Run& run) noexcept {
  const uint64_t end = run.index + run.count;
  auto leaf = leaf_at(run.index);
  if (leaf == leaves_.end()) return;
  size_t at = first_behind(leaf->second, run.index);
  for (; leaf != leaves_.end(); ++leaf, at = 0) {
    for (; at < leaf->second.size(); ++at) {
      Run& there = leaf->second[at];
      if (there.index >= end) return;
      if (there.held != Held::kHere || !is_part(there, run)) continue;
      there.held = Held::kBoth;
      in_both_ += there.count;
    }
  }
}

bool SegmentTable::is_part(const Run& part, const Run& run) {
  if (part.index < run.index || part.index + part.count > run.index + run.count) return false;
  Run expected = clipped(run, part.index, part.index + part.count);
  expected.held = part.held;
  return part == expected;
}

void SegmentTable::prepare(uint64_t first, uint64_t end, std::span<const Run> runs,
                           Change& change) {
  change.first_ = first;
  change.end_ = end;
  change.runs_.clear();
  change.prepared_.clear();
  change.runs_.reserve(runs.size() + 2);

  auto leaf = leaf_at(first);
  if (leaf == leaves_.end()) {
    leaf = leaves_.try_emplace(0).first;  // an empty leaf is a hole: nothing has changed
  }
  // The leaves that have anything in the range: usually one.
  auto last = leaf;
  while (std::next(last) != leaves_.end() && std::next(last)->first < end) ++last;

  const Leaf& front = leaf->second;
  const Leaf& back = last->second;
  const size_t from = first_behind(front, first);
  size_t to = leaf == last ? from : 0;
  while (to < back.size() && back[to].index < end) ++to;
  change.first_leaf_ = leaf;
  change.last_leaf_ = last;
  change.from_ = from;
  change.to_ = to;
  if (from < front.size() && front[from].index < first) {
    change.runs_.push_back(clipped(front[from], front[from].index, first));
  }
  change.runs_.insert(change.runs_.end(), runs.begin(), runs.end());
  if (to > 0) {
    const Run& cut = back[to - 1];
    if (cut.index + cut.count > end && cut.index < end) {
      change.runs_.push_back(clipped(cut, end, cut.index + cut.count));
    }
  }

  if (leaf == last) {
    const size_t result = front.size() - (to - from) + change.runs_.size();
    if (result <= kLeafRuns) {
      if (front.capacity() < result) {
        leaf->second.reserve(std::min(kLeafRuns, std::max(result, front.size() * 2)));
      }
      return;
    }
  }
  // New leaves, equally filled, of what is left at both ends and the new in between.
  std::vector<Run> all;
  all.reserve(from + change.runs_.size() + back.size() - to);
  all.insert(all.end(), front.begin(), front.begin() + static_cast<ptrdiff_t>(from));
  all.insert(all.end(), change.runs_.begin(), change.runs_.end());
  all.insert(all.end(), back.begin() + static_cast<ptrdiff_t>(to), back.end());
  const size_t leaves = std::max<size_t>(1, (all.size() + kLeafRuns - 1) / kLeafRuns);
  change.prepared_.reserve(leaves);
  size_t taken = 0;
  for (size_t i = 0; i < leaves; ++i) {
    // Appending fills leaves rather than halves them.
    const size_t share = to == back.size() && std::next(last) == leaves_.end()
                             ? std::min(kLeafRuns, all.size() - taken)
                             : (all.size() - taken) / (leaves - i);
    Leaves one;
    Leaf& made = one[i == 0 ? leaf->first : all[taken].index];
    made.reserve(kLeafRuns);
    made.insert(made.end(), all.begin() + static_cast<ptrdiff_t>(taken),
                all.begin() + static_cast<ptrdiff_t>(taken + share));
    taken += share;
    change.prepared_.push_back(one.extract(one.begin()));
  }
}

void SegmentTable::replace(Change& change) noexcept {
  // The parts at the edges are in the change again.
  for (const Run& run : change.runs_) {
    if (run.index >= change.first_ && run.index < change.end_) count(run, 1);
  }
  const auto leaf = change.first_leaf_;
  if (change.prepared_.empty()) {
    const auto from = leaf->second.begin() + static_cast<ptrdiff_t>(change.from_);
    const auto to = leaf->second.begin() + static_cast<ptrdiff_t>(change.to_);
    runs_ += change.runs_.size();
    runs_ -= static_cast<uint64_t>(to - from);
    // In place: what fits over the old, then the rest.
    const auto both = std::min(to - from, static_cast<ptrdiff_t>(change.runs_.size()));
    std::copy_n(change.runs_.begin(), both, from);
    if (both < to - from) {
      leaf->second.erase(from + both, to);
    } else {
      leaf->second.insert(to, change.runs_.begin() + both, change.runs_.end());
    }
    if (leaf->second.empty() && leaves_.size() > 1 && leaf->first != 0) leaves_.erase(leaf);
    return;
  }
  auto end = leaf;
  const auto stop = std::next(change.last_leaf_);
  while (end != stop) {
    runs_ -= end->second.size();
    end = leaves_.erase(end);
  }
  for (auto& node : change.prepared_) {
    runs_ += node.mapped().size();
    leaves_.insert(end, std::move(node));
  }
  change.prepared_.clear();
}

}  // namespace verbena::store
