// SPDX-License-Identifier: Apache-2.0
#include "cm_storm/network.h"

#include <algorithm>

namespace verbena::cm_storm {

void Agenda::do_next() {
  const auto what = queue_.top().what;
  queue_.pop();
  what();
}

void Network::send(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad, Time now) {
  if (random_.chance_ppm(faults_.duplicate_ppm)) carry(from, to, mad, now);
  carry(from, to, mad, now);
}

void Network::carry(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad, Time now) {
  if (random_.chance_ppm(faults_.loss_ppm)) return;
  const auto up_to = [this](Duration most) {
    return static_cast<Duration>(random_.below(static_cast<uint64_t>(most) + 1));
  };
  Duration way = faults_.delay + up_to(faults_.jitter);
  if (random_.chance_ppm(faults_.straggler_ppm)) way += up_to(faults_.straggle);
  cm::MadBuffer bytes;
  std::ranges::copy(mad, bytes.begin());
  agenda_.at(now + way, [this, from, to, bytes] { deliver_(from, to, bytes); });
}

}  // namespace verbena::cm_storm
