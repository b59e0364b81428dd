// SPDX-License-Identifier: Apache-2.0
// What a server remembers of one client's requests that change the store, so that each takes effect
// at most once however often it is sent: those that are being executed, and the responses of the
// others, until the client says that it has them.
//
// Bounded: ids lie in [oldest, oldest + span), except those that were being executed when the
// client gave them up.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "protocol/header.h"

namespace verbena::session {

class ResultMemory {
 public:
  enum class Verdict : uint8_t {
    kNew,        // execute it; finish() or abandon() follows
    kFinished,   // `response` has what it was answered
    kExecuting,  // cannot be: a session begins when all of the last one's have finished
    kMismatch,   // the id is that of another kind of request
    kSpan,       // outside the span
  };
  struct Begun {
    Verdict verdict = Verdict::kNew;
    std::span<const uint8_t> response{};
  };

  // All ids below: forget them. It does not go back.
  void forget_below(uint64_t oldest);
  [[nodiscard]] uint64_t oldest() const { return oldest_; }
  [[nodiscard]] Begun begin(uint64_t id, protocol::MessageType type, uint16_t span);
  // Its response, as the caller wants it back.
  void finish(uint64_t id, std::span<const uint8_t> response);
  // It had no effect and will have none: it may be executed again.
  void abandon(uint64_t id);
  // Whether it is one that begin() said to execute, and that is not finished or abandoned.
  [[nodiscard]] bool executing(uint64_t id) const;
  [[nodiscard]] size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    protocol::MessageType type{};
    bool finished = false;
    std::vector<uint8_t> response{};
  };
  uint64_t oldest_ = 0;
  std::map<uint64_t, Entry> entries_;
};

}  // namespace verbena::session
