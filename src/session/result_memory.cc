// SPDX-License-Identifier: Apache-2.0
#include "session/result_memory.h"

#include "base/check.h"

namespace verbena::session {

void ResultMemory::forget_below(uint64_t oldest) {
  if (oldest <= oldest_) return;
  oldest_ = oldest;
  for (auto it = entries_.begin(); it != entries_.end() && it->first < oldest_;) {
    // One that is being executed is forgotten when it finishes.
    it = it->second.finished ? entries_.erase(it) : std::next(it);
  }
}

ResultMemory::Begun ResultMemory::begin(uint64_t id, protocol::MessageType type, uint16_t span) {
  if (id < oldest_ || id - oldest_ >= span) return {Verdict::kSpan};
  const auto [it, inserted] = entries_.try_emplace(id);
  Entry& entry = it->second;
  if (inserted) {
    entry.type = type;
    return {Verdict::kNew};
  }
  if (entry.type != type) return {Verdict::kMismatch};
  if (!entry.finished) return {Verdict::kExecuting};
  return {Verdict::kFinished, entry.response};
}

void ResultMemory::finish(uint64_t id, std::span<const uint8_t> response) {
  const auto it = entries_.find(id);
  VERBENA_CHECK(it != entries_.end() && !it->second.finished);
  if (id < oldest_) {
    entries_.erase(it);
    return;
  }
  it->second.finished = true;
  it->second.response.assign(response.begin(), response.end());
}

void ResultMemory::abandon(uint64_t id) {
  const auto it = entries_.find(id);
  VERBENA_CHECK(it != entries_.end() && !it->second.finished);
  entries_.erase(it);
}

bool ResultMemory::executing(uint64_t id) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && !it->second.finished;
}

}  // namespace verbena::session
