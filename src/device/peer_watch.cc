// SPDX-License-Identifier: Apache-2.0
#include "device/peer_watch.h"

#include <algorithm>

namespace verbena::device {

void PeerWatch::put(cm::CommId id, const Watched& watched) {
  if (watched_.empty()) tick_at_ = watched.since + options_.tick;
  watched_[id.value] = watched;
}

void PeerWatch::add(cm::CommId id, Qpn qpn, Time now) {
  const auto attr = endpoint_.query_qp(qpn);
  if (!attr) return;
  Watched watched{.qpn = qpn,
                  .peer = attr->path.destination,
                  .peer_qpn = attr->dest_qpn,
                  .incarnation = link_.incarnation_of(attr->path.destination, attr->dest_qpn),
                  .since = now};
  // It may have died since its first message.
  const auto before = watched_.find(id.value);
  if (watched.incarnation == 0 && before != watched_.end()) {
    watched.incarnation = before->second.incarnation;
  }
  put(id, watched);
}

void PeerWatch::add_member(cm::CommId id, const wire::Gid& peer, Qpn any_of_it, Time now) {
  const uint32_t incarnation = link_.incarnation_of(peer, any_of_it);
  if (incarnation == 0) return;
  put(id, {.qpn = Qpn(0),
           .peer = peer,
           .peer_qpn = any_of_it,
           .incarnation = incarnation,
           .since = now});
}

void PeerWatch::remove(cm::CommId id) { watched_.erase(id.value); }

Qpn PeerWatch::qpn_of(cm::CommId id) const {
  const auto place = watched_.find(id.value);
  return place != watched_.end() ? place->second.qpn : Qpn(0);
}

bool PeerWatch::is_gone(const Watched& watched, Time now) {
  if (watched.incarnation != 0) {
    return link_.incarnation_of(watched.peer, watched.peer_qpn) != watched.incarnation;
  }
  const Time heard = std::max(endpoint_.heard(watched.qpn), watched.since);
  if (now - heard < options_.idle) return false;
  // With requests under way, their own retries decide.
  return endpoint_.ping(watched.qpn) && now - heard >= options_.idle + options_.patience;
}

std::vector<cm::CommId> PeerWatch::tick(Time now) {
  std::vector<cm::CommId> gone;
  tick_at_ = now + options_.tick;
  for (auto at = watched_.begin(); at != watched_.end();) {
    const Watched& watched = at->second;
    // Without its queue pair a connection has nobody to be told.
    const bool orphan = watched.qpn != Qpn(0) && !endpoint_.query_qp(watched.qpn);
    const bool lost = !orphan && is_gone(watched, now);
    if (lost) gone.push_back(cm::CommId(at->first));
    at = lost || orphan ? watched_.erase(at) : std::next(at);
  }
  return gone;
}

}  // namespace verbena::device
