// SPDX-License-Identifier: Apache-2.0
#include "device/peer_watch.h"

#include <algorithm>

namespace verbena::device {

void PeerWatch::add(cm::CommId id, Qpn qpn, Time now) {
  const auto attr = endpoint_.query_qp(qpn);
  if (!attr) return;
  if (watched_.empty()) tick_at_ = now + options_.tick;
  const uint32_t incarnation = host_.incarnation_of(attr->path.destination, attr->dest_qpn);
  watched_[id.value] = {.qpn = qpn, .incarnation = incarnation, .since = now};
}

void PeerWatch::remove(cm::CommId id) { watched_.erase(id.value); }

bool PeerWatch::is_gone(const Watched& watched, const transport::QpAttr& attr, Time now) {
  if (watched.incarnation != 0) {
    return host_.incarnation_of(attr.path.destination, attr.dest_qpn) != watched.incarnation;
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
    const auto attr = endpoint_.query_qp(at->second.qpn);
    const bool lost = attr && is_gone(at->second, *attr, now);
    if (lost) gone.push_back(cm::CommId(at->first));
    // Without its queue pair a connection has nobody to be told.
    at = lost || !attr ? watched_.erase(at) : std::next(at);
  }
  return gone;
}

}  // namespace verbena::device
