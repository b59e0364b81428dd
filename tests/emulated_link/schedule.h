// SPDX-License-Identifier: Apache-2.0
// Packets under way, by the time they are due. Nearly all are due in the order they came in: these
// are a queue; those that are overtaken or overtake are a heap beside it.
#pragma once

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "base/time.h"

namespace verbena::emulated {

struct UnderWay {
  Time due = 0;
  uint32_t slot = 0;
  uint32_t bytes = 0;
};

class Schedule {
 public:
  void add(const UnderWay& packet) {
    if (in_order_.empty() || packet.due >= in_order_.back().due) {
      in_order_.push_back(packet);
    } else {
      others_.push(packet);
    }
  }
  [[nodiscard]] Time next_due() const {
    const Time first = in_order_.empty() ? kNever : in_order_.front().due;
    return others_.empty() || first < others_.top().due ? first : others_.top().due;
  }
  // The first that is due. There is one.
  UnderWay take() {
    UnderWay packet;
    if (!others_.empty() && (in_order_.empty() || others_.top().due < in_order_.front().due)) {
      packet = others_.top();
      others_.pop();
    } else {
      packet = in_order_.front();
      in_order_.pop_front();
    }
    return packet;
  }

 private:
  struct Later {
    bool operator()(const UnderWay& a, const UnderWay& b) const { return a.due > b.due; }
  };
  std::deque<UnderWay> in_order_;
  std::priority_queue<UnderWay, std::vector<UnderWay>, Later> others_;
};

}  // namespace verbena::emulated
