// SPDX-License-Identifier: Apache-2.0
// What happens, in the order of time; of one moment, in the order it was asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/time.h"

namespace verbena::session_sim {

class Events {
 public:
  void at(Time when, std::function<void()> what) {
    queue_.emplace(std::pair(when < now_ ? now_ : when, next_++), std::move(what));
  }
  void after(Duration span, std::function<void()> what) { at(now_ + span, std::move(what)); }
  // Until `end`; calls before_each() with the number of the event.
  template <typename BeforeEach>
  void run(Time end, BeforeEach before_each) {
    while (!queue_.empty() && queue_.begin()->first.first <= end) {
      auto node = queue_.extract(queue_.begin());
      now_ = node.key().first;
      before_each(count_++);
      node.mapped()();
    }
    now_ = end;
  }
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  Time now_ = kSecond;
  uint64_t next_ = 0;
  uint64_t count_ = 0;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> queue_;
};

}  // namespace verbena::session_sim
