// SPDX-License-Identifier: Apache-2.0
#include "device/held_disconnects.h"

#include <algorithm>

namespace verbena::device {

bool HeldDisconnects::keep(const cm::Event& event, Qpn qpn, const CompletionMarks& marks,
                           Time now) {
  if (were_polled_(qpn, marks)) return false;
  Held held{.event = event, .qpn = qpn, .marks = marks, .since = now, .look_at = now + kFirstLook};
  held.event.private_data = {};
  held.event.info = {};
  held_.push_back(held);
  return true;
}

Time HeldDisconnects::next_look() const {
  Time next = kNever;
  for (const Held& held : held_) next = std::min(next, held.look_at);
  return next;
}

std::vector<cm::Event> HeldDisconnects::take_due(Time now) {
  std::vector<cm::Event> due;
  for (auto held = held_.begin(); held != held_.end();) {
    const Duration waited = now - held->since;
    if (held->look_at > now) {
      ++held;
    } else if (waited >= kLongest || were_polled_(held->qpn, held->marks)) {
      due.push_back(held->event);
      held = held_.erase(held);
    } else {
      held->look_at = now + std::min(waited, kLongest - waited);
      ++held;
    }
  }
  return due;
}

std::vector<cm::Event> HeldDisconnects::take(cm::CommId id) {
  std::vector<cm::Event> taken;
  std::erase_if(held_, [&](const Held& held) {
    if (held.event.id != id) return false;
    taken.push_back(held.event);
    return true;
  });
  return taken;
}

}  // namespace verbena::device
