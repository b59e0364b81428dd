// SPDX-License-Identifier: Apache-2.0
// Who reads in order, so that what comes next is fetched before it is wanted. A stream begins with
// a miss at the beginning of an object, or one that follows another. From then on a window ahead of
// it is fetched whenever it reaches the one that was fetched before, each twice as large:
//
//   |--- used ---|--- fetched ---|--- being fetched ---|
//                ^ wake: its first use fetches          ^ next
//
// All in segments. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/object_id.h"

namespace verbena::cache {

class Streams {
 public:
  struct Range {
    ObjectId object;
    uint64_t first = 0;
    uint64_t count = 0;
    bool operator==(const Range&) const = default;
  };
  // At most `window` are fetched ahead. 0: none.
  explicit Streams(uint64_t window) : max_window_(window) {}

  // Those of a miss are fetched now. What should be fetched ahead as well, which follows them.
  [[nodiscard]] std::optional<Range> missed(const Range& range);
  // They were here, and were used. Cheap.
  [[nodiscard]] std::optional<Range> used(const Range& range);

 private:
  static constexpr size_t kMost = 64;
  struct Stream {
    ObjectId object;
    uint64_t wake = 0;
    uint64_t next = 0;
    uint64_t window =
        0;  // 0: not in order yet, and wake and next are where the second miss would be
  };
  [[nodiscard]] Range fetch_next(Stream& stream) const;

  const uint64_t max_window_;
  std::vector<Stream> streams_;
  size_t oldest_ = 0;
  size_t in_order_ = 0;
};

}  // namespace verbena::cache
