// SPDX-License-Identifier: Apache-2.0
// Requests of peers that have come to no end yet, and what is known of the addresses they came
// from. Anybody can claim any address in a request. That it can be reached there a peer shows with
// the first message that names an id of ours: until then its address is *silent*, and it gets
// little: few repetitions of our answers, and its oldest request makes room for others'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/time.h"
#include "cm/connection.h"
#include "cm/connection_table.h"
#include "cm/listeners.h"
#include "cm/seeded_hash.h"
#include "wire/gid.h"

namespace verbena::cm {

class HalfOpen {
 public:
  // A request whose answer is on its way for less than this is not given up for another.
  static constexpr Duration kLeastWait = 20 * kMillisecond;
  // Addresses that have answered; others are forgotten for new ones.
  static constexpr size_t kMaxAnswered = 4096;

  HalfOpen(const ConnectionTable& table, uint64_t seed)
      : table_(table), sources_(0, GidHash{seed}) {}

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t size_of(const wire::Gid& source) const;
  void add(const wire::Gid& source);
  void remove(const wire::Gid& source);

  void answered(const wire::Gid& source);
  [[nodiscard]] bool is_silent(const wire::Gid& source) const;
  // Of a connection: our own address is no stranger's.
  [[nodiscard]] bool is_silent(const Connection& c) const {
    return c.passive && c.source != c.destination && is_silent(c.destination);
  }

  // It waits for the program from now on, or the program's answer was sent.
  void asked(const Connection& c);
  void replied(const Connection& c, Time now) { replied_.push(table_, c, now); }
  // The oldest that a silent address has made: of those that were answered long enough ago, or of
  // those that wait for this listener's program, if the address has at least so many half open.
  // nullptr: there is none.
  [[nodiscard]] Connection* oldest_replied(Time now);
  [[nodiscard]] Connection* oldest_waiting(const Listener& listener, size_t least);
  // Of those that wait for any listener's.
  [[nodiscard]] Connection* oldest_waiting_anywhere();
  // It listens no more.
  void forget(ListenerId listener) { waiting_.erase(listener.value); }

 private:
  struct Source {
    uint32_t half_open = 0;
    bool answered = false;
  };
  struct GidHash {
    uint64_t seed;
    size_t operator()(const wire::Gid& gid) const {
      const auto words = gid.words();
      return seeded_hash(seed, {words[0], words[1]});
    }
  };
  // In the order they came. Those that have left the state stay until somebody looks.
  struct Line {
    struct Place {
      CommId id;
      Time since;
    };
    State state;
    std::deque<Place> places{};

    void push(const ConnectionTable& table, const Connection& c, Time now);
    [[nodiscard]] Connection* find(const ConnectionTable& table, const Place& place) const;
  };
  [[nodiscard]] Connection* oldest_silent(Line& line, size_t least) const;
  void forget_idle();

  const ConnectionTable& table_;
  std::unordered_map<wire::Gid, Source, GidHash> sources_;
  std::unordered_map<uint64_t, Line> waiting_;  // by listener
  Line replied_{State::kRepSent, {}};
  size_t size_ = 0;
  size_t answered_ = 0;
};

}  // namespace verbena::cm
