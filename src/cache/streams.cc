// SPDX-License-Identifier: Apache-2.0
#include "cache/streams.h"

#include <algorithm>

namespace verbena::cache {

std::optional<Streams::Range> Streams::missed(const Range& range) {
  if (max_window_ == 0) return {};
  const uint64_t end = range.first + range.count;
  for (Stream& stream : streams_) {
    // One whose window was not fetched is still in order. Misses elsewhere in it are others': taken
    // for it, those of random reads would fetch ever more.
    const bool follows = range.first == stream.next || range.first == stream.wake;
    if (stream.object != range.object || !follows) continue;
    if (stream.window == 0) ++in_order_;
    stream.window = std::max(stream.window, range.count);
    stream.next = end;
    return fetch_next(stream);
  }
  const bool in_order = range.first == 0;
  Stream fresh{range.object, end, end, in_order ? range.count : 0};
  std::optional<Range> ahead;
  if (in_order) {
    ++in_order_;
    ahead = fetch_next(fresh);
  }
  if (streams_.size() < kMost) {
    streams_.push_back(fresh);
    return ahead;
  }
  Stream& oldest = streams_[oldest_++ % kMost];
  if (oldest.window != 0) --in_order_;
  oldest = fresh;
  return ahead;
}

std::optional<Streams::Range> Streams::used(const Range& range) {
  if (in_order_ == 0) return {};
  for (Stream& stream : streams_) {
    if (stream.window == 0 || stream.object != range.object) continue;
    const uint64_t end = range.first + range.count;
    if (range.first <= stream.wake && stream.wake < end && end <= stream.next) {
      return fetch_next(stream);
    }
  }
  return {};
}

Streams::Range Streams::fetch_next(Stream& stream) const {
  stream.window = std::min(2 * stream.window, max_window_);
  const Range range{.object = stream.object, .first = stream.next, .count = stream.window};
  stream.wake = stream.next;
  stream.next += stream.window;
  return range;
}

}  // namespace verbena::cache
