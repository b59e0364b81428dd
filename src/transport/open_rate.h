// SPDX-License-Identifier: Apache-2.0
// What UC and UD send to other hosts, which nobody acknowledges: as fast as the link takes it, as a
// NIC does, until a congestion notification (CNP) comes. Then what goes to that host has a rate:
// half of what was sent before, halved again by the next notification, and from then on, as in
// DCQCN, half of the way back at each step, then a little more at each, until it is as good as
// none.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/time.h"
#include "wire/gid.h"

namespace verbena::transport {

class OpenRate {
 public:
  static constexpr size_t kMaxHosts = 1024;  // that have a rate; more are not slowed down

  // When more may go there; 0: at any time.
  [[nodiscard]] Time allows_at(const wire::Gid& to, Time now);
  // So much was sent, to whomever. `ect`: routers may mark it.
  void on_sent(const wire::Gid& to, bool ect, uint64_t cost, Time now);
  // What goes there met congestion, says somebody there. False, and nothing is done, if nothing was
  // sent there of late that may have been marked: whoever can send a packet can say so.
  bool on_mark(const wire::Gid& to, Time now);
  // Hosts that have a rate.
  [[nodiscard]] size_t size() const { return slow_.size(); }

 private:
  struct Slow {
    double rate = 0;     // of cost, per nanosecond
    double before = 0;   // when it was last cut
    uint32_t steps = 0;  // since then
    Time marked_at = 0;
    Time grown_at = 0;
    Time paced_until = 0;  // what was sent so far leaves by then
  };
  using Hosts = std::map<wire::Gid, Slow>;

  // Raises its rate by the time; the end if it needs none any more.
  [[nodiscard]] Hosts::iterator look_at(const wire::Gid& to, Time now);
  // Of what was sent of late, to all hosts.
  [[nodiscard]] double measured(Time now) const;

  // Where the last that was sent to each of these hosts and may be marked is noted; hosts that
  // share a place push each other out, and a notification of one of them may then be missed.
  struct Sent {
    wire::Gid to;
    Time at = -kSecond * 3600;
  };
  static constexpr size_t kSentPlaces = 256;
  [[nodiscard]] Sent& sent_to(const wire::Gid& to);

  std::array<Sent, kSentPlaces> sent_;
  Hosts slow_;
  uint64_t span_cost_ = 0;
  Time span_since_ = 0;
  double last_span_ = 0;  // rate of the one before
};

}  // namespace verbena::transport
