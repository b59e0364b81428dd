// SPDX-License-Identifier: Apache-2.0
// Whether the peers of idle connections are still there. A kernel that ends a process disconnects
// for it; nobody does so for ours. A peer on this host is looked up in the shared table. One
// elsewhere is asked, when nothing was heard of it for a while: its queue pair answers, whatever
// its program does, unless it was stopped; so patience is long.
//
// Under the engine's lock.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "cm/types.h"
#include "link/link.h"
#include "transport/endpoint.h"

namespace verbena::device {

struct PeerWatchOptions {
  Duration tick = kSecond;
  Duration idle = 10 * kSecond;      // until it is asked,
  Duration patience = 60 * kSecond;  // every tick, for so long
};

class PeerWatch {
 public:
  PeerWatch(transport::Endpoint& endpoint, link::Link& link, const PeerWatchOptions& options)
      : endpoint_(endpoint), link_(link), options_(options) {}

  // From the time that data can flow, by our queue pair.
  void add(cm::CommId id, Qpn qpn, Time now);
  // From the first message on, before there is a queue pair to ask: only if the peer is a process
  // of this host, the one that `any_of_it` would belong to.
  void add_member(cm::CommId id, const wire::Gid& peer, Qpn any_of_it, Time now);
  void remove(cm::CommId id);
  // Our queue pair, while it is watched; 0: none.
  [[nodiscard]] Qpn qpn_of(cm::CommId id) const;
  [[nodiscard]] Time next_tick() const { return watched_.empty() ? kNever : tick_at_; }
  // Those that are gone; they are not watched any more.
  [[nodiscard]] std::vector<cm::CommId> tick(Time now);

 private:
  struct Watched {
    Qpn qpn;  // 0: none yet
    wire::Gid peer;
    Qpn peer_qpn;
    uint32_t incarnation = 0;  // of the member that the peer is; 0: it is elsewhere
    Time since = 0;
  };
  void put(cm::CommId id, const Watched& watched);
  [[nodiscard]] bool is_gone(const Watched& watched, Time now);

  transport::Endpoint& endpoint_;
  link::Link& link_;
  const PeerWatchOptions options_;
  std::unordered_map<uint32_t, Watched> watched_;
  Time tick_at_ = kNever;
};

}  // namespace verbena::device
