// SPDX-License-Identifier: Apache-2.0
// What happens when: a queue of things to do in simulated time, and a network that loses, repeats
// and reorders messages, all from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "cm/mad.h"
#include "wire/gid.h"

namespace verbena::cm_storm {

class Agenda {
 public:
  void at(Time when, std::function<void()> what) {
    queue_.push({when, ++serial_, std::move(what)});
  }
  [[nodiscard]] Time next() const { return queue_.empty() ? kNever : queue_.top().when; }
  void do_next();

 private:
  struct Entry {
    Time when;
    uint64_t serial;  // of two at one moment, the older first
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : serial > other.serial;
    }
  };
  std::priority_queue<Entry> queue_;
  uint64_t serial_ = 0;
};

struct Faults {
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;
  uint32_t straggler_ppm = 0;  // messages that come when nobody thinks of them any more
  Duration delay = 10 * kMicrosecond;
  Duration jitter = 0;
  Duration straggle = 0;
};

using Deliver = std::function<void(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad)>;

class Network {
 public:
  Network(const Faults& faults, Agenda& agenda, RandomSource& random, Deliver deliver)
      : faults_(faults), agenda_(agenda), random_(random), deliver_(std::move(deliver)) {}

  void send(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad, Time now);

 private:
  void carry(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad, Time now);

  Faults faults_;
  Agenda& agenda_;
  RandomSource& random_;
  Deliver deliver_;
};

}  // namespace verbena::cm_storm
