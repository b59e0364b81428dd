// SPDX-License-Identifier: Apache-2.0
// What this host's socket has room for, and how many other hosts share it: those that sent
// something of late. Each is told its part.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class ReceiveRoom {
 public:
  // In which span a host was last heard of; it belongs to the host.
  using Span = uint64_t;

  // 0: it is not known.
  void set(uint64_t bytes) { bytes_ = bytes; }
  // A host sent something; `heard` is its own.
  void on_heard(Span& heard, Time now) {
    if (now >= span_end_) begin_span(now);
    if (heard == span_) return;
    heard = span_;
    ++hosts_;
  }
  // What one host may have under way to it; 0: it is not known.
  [[nodiscard]] uint64_t share() const {
    return bytes_ / std::max<uint64_t>({hosts_, last_hosts_, 1});
  }

 private:
  static constexpr Duration kSpan = 20 * kMillisecond;

  void begin_span(Time now) {
    last_hosts_ = now < span_end_ + kSpan ? hosts_ : 0;
    hosts_ = 0;
    ++span_;
    span_end_ = now + kSpan;
  }

  uint64_t bytes_ = 0;
  Span span_ = 0;
  Time span_end_ = 0;
  uint64_t hosts_ = 0;       // in this span
  uint64_t last_hosts_ = 0;  // in the one before
};

}  // namespace verbena::transport
