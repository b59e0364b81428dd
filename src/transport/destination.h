// SPDX-License-Identifier: Apache-2.0
// Another host that queue pairs of this endpoint are connected to: what all of them together may
// have under way, in each direction. One of this host has none; there the link's credits bound what
// is under way (PacketSink::paces). flow.h has what is done with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/timer_heap.h"
#include "transport/congestion.h"
#include "transport/receive_room.h"
#include "transport/reordering.h"
#include "wire/gid.h"

namespace verbena::transport {

struct QueuePair;

// Queue pairs in the order they came; each is in one line at most.
class WaitingLine {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] const QueuePair* first() const { return first_; }
  void push_back(QueuePair& qp);
  void push_front(QueuePair& qp);
  [[nodiscard]] QueuePair* pop_front();  // nullptr when there is none
  void remove(QueuePair& qp);            // which is in it

 private:
  QueuePair* first_ = nullptr;
  QueuePair* last_ = nullptr;
};

// One direction of the way to it: packets that we send, or responses that we asked for.
struct Way {
  explicit Way(const CongestionWindow& initial) : control(initial) {}

  CongestionWindow control;
  Reordering reordering;
  uint64_t in_flight = 0;  // what its queue pairs have charged (WayShare)
  uint64_t delivered = 0;  // all that ever was
  Time paced_until = 0;    // what was sent so far leaves by then, at the rate it should
  WaitingLine waiting;     // for room
  uint32_t turns = 0;      // given to those who waited, and not over
};

enum class Direction : uint8_t { kOut, kIn };

struct Destination {
  Destination(const wire::Gid& gid, const CongestionWindow& initial)
      : address(gid), ways{Way(initial), Way(initial)} {}

  [[nodiscard]] Way& way(Direction direction) { return ways[static_cast<size_t>(direction)]; }

  const wire::Gid address;
  std::array<Way, 2> ways;
  uint32_t users = 0;                 // queue pairs
  std::vector<QueuePair*> repairing;  // have lost something, and may not have it repaired
  TimerHook timer;                    // somebody waits for time to pass
  ReceiveRoom::Span heard = 0;        // when it last sent something
};

class Destinations {
 public:
  // One more queue pair goes there.
  Destination& join(const wire::Gid& address, const CongestionWindow& initial);
  // The host is forgotten with its last one.
  void leave(Destination& destination);
  // nullptr: no queue pair goes there.
  [[nodiscard]] Destination* find(const wire::Gid& address) const;
  [[nodiscard]] size_t size() const { return all_.size(); }
  [[nodiscard]] TimerHeap<Destination>& timers() { return timers_; }
  [[nodiscard]] const TimerHeap<Destination>& timers() const { return timers_; }

 private:
  std::map<wire::Gid, std::unique_ptr<Destination>> all_;
  TimerHeap<Destination> timers_;
};

}  // namespace verbena::transport
