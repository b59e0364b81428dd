// SPDX-License-Identifier: Apache-2.0
// Which parts of a cache leave first: S3-FIFO. What comes in is on probation, in a queue of a
// tenth; who is used there goes to the main queue, who is not leaves, and is remembered for a
// while. Who comes back meanwhile goes to the main queue at once. That queue gives those that were
// used another round. So what is read once, however much it is, passes through without driving out
// the rest.
//
//   new -> [ probation ] -- used ------------------> [ main ] -- not used --> out
//                 `-- not used --> out, remembered -- again --^   `-- used: once more
//
// A use costs one look into a table; nothing is moved. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/object_id.h"

namespace verbena::cache {

// kSegmentParts parts of an object.
struct Segment {
  ObjectId object;
  uint64_t number = 0;
  bool operator==(const Segment&) const = default;
};

class EvictionQueue {
 public:
  // It is here now; again if it was before.
  void add(const Segment& segment);
  void use(const Segment& segment);
  // All that it knows of these objects, which are gone: for another reason than next().
  void forget(const std::set<ObjectId>& objects);
  [[nodiscard]] std::set<ObjectId> objects() const;
  // Which one should leave. It is forgotten here: add() it again if it cannot.
  [[nodiscard]] std::optional<Segment> next();
  [[nodiscard]] size_t size() const { return known_.size() - remembered_; }

 private:
  enum class Place : uint8_t { kProbation, kMain, kOut };
  struct State {
    Place place = Place::kProbation;
    uint8_t uses = 0;
    uint64_t ticket = 0;  // of its entry in a queue; others are out of date
  };
  struct Entry {
    Segment segment;
    uint64_t ticket = 0;
  };
  struct Hash {
    size_t operator()(const Segment& segment) const noexcept {
      return static_cast<size_t>((segment.object.high * 0x9e3779b97f4a7c15) ^
                                 (segment.object.low * 0xc2b2ae3d27d4eb4f) ^
                                 ((segment.number + 1) * 0x165667b19e3779f9));
    }
  };
  static constexpr uint8_t kMaxUses = 3;

  void put(std::deque<Entry>& queue, const Segment& segment, State& state, Place place);
  // The state of the front entry; none: it was out of date.
  [[nodiscard]] State* front(std::deque<Entry>& queue);
  [[nodiscard]] std::optional<Segment> next_on_probation();
  [[nodiscard]] std::optional<Segment> next_of_main();
  void forget_some();
  void drop_outdated(std::deque<Entry>& queue);

  std::unordered_map<Segment, State, Hash> known_;
  std::deque<Entry> probation_;
  std::deque<Entry> main_;
  std::deque<Entry> out_;
  size_t on_probation_ = 0;
  size_t in_main_ = 0;
  size_t remembered_ = 0;
  uint64_t tickets_ = 0;
};

}  // namespace verbena::cache
