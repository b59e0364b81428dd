// SPDX-License-Identifier: Apache-2.0
// Ranges of objects that clients have registered for reading or writing. A range that conflicts
// with that of another client is refused; all ranges of a client are dropped at once. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "store/error.h"

namespace verbena::store {

using ClientId = uint64_t;
inline constexpr ClientId kNoClient = 0;  // which has no ranges
using RangeId = uint64_t;

enum class Access : uint8_t { kRead, kWrite };

class RangeRegistry {
 public:
  // Two ranges conflict when they overlap, are of different clients and one of them is for writing.
  // length 0: to the end of the object, however long it becomes. kConflict, kInvalid (no client, or
  // beyond 2^64) or kFull (kMaxPerClient).
  [[nodiscard]] Result<RangeId> add(ClientId client, ObjectId object, uint64_t offset,
                                    uint64_t length, Access access);
  // Only the client that has it may: kNotFound.
  [[nodiscard]] Result<void> remove(ClientId client, RangeId range);
  void drop(ClientId client);
  void drop(ObjectId object);  // it was deleted
  // kConflict if a write of this client (or of nobody in particular) would go against a range of
  // another's. No bytes go against nothing; those past 2^64 do not count.
  [[nodiscard]] Result<void> check_write(ClientId client, ObjectId object, uint64_t offset,
                                         uint64_t length) const;
  [[nodiscard]] size_t size() const;

  static constexpr size_t kMaxPerClient = 4096;

 private:
  struct Range {
    RangeId id;
    ClientId client;
    uint64_t offset;
    uint64_t last;  // inclusive, so that it can be the last byte there is
    Access access;
    uint64_t reach = 0;  // the greatest `last` up to here
  };
  // Of one object.
  class Ranges {
   public:
    [[nodiscard]] bool empty() const { return all_.empty(); }
    [[nodiscard]] const std::vector<Range>& all() const { return all_; }
    void insert(const Range& range);
    template <typename Which>
    void erase_if(Which which) {
      std::erase_if(all_, which);
      refresh(0);
    }
    [[nodiscard]] const Range* find_conflict(const Range& wish) const;

   private:
    void refresh(size_t first);
    std::vector<Range> all_;  // sorted by offset
  };

  [[nodiscard]] static Error refusal(ObjectId object, const Range& wish, const Range& conflict);
  void forget(ClientId client, RangeId range) VERBENA_REQUIRES(mutex_);
  void tidy(ObjectId object) VERBENA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  RangeId next_ VERBENA_GUARDED_BY(mutex_) = 1;
  // None of them empty.
  std::map<ObjectId, Ranges> by_object_ VERBENA_GUARDED_BY(mutex_);
  std::unordered_map<ClientId, std::unordered_map<RangeId, ObjectId>> by_client_
      VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::store
