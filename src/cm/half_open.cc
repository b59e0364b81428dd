// SPDX-License-Identifier: Apache-2.0
#include "cm/half_open.h"

#include <algorithm>

#include "base/check.h"

namespace verbena::cm {

size_t HalfOpen::size_of(const wire::Gid& source) const {
  const auto found = sources_.find(source);
  return found == sources_.end() ? 0 : found->second.half_open;
}

void HalfOpen::add(const wire::Gid& source) {
  ++size_;
  ++sources_[source].half_open;
}

void HalfOpen::remove(const wire::Gid& source) {
  const auto found = sources_.find(source);
  VERBENA_CHECK(found != sources_.end() && found->second.half_open > 0);
  --size_;
  if (--found->second.half_open == 0 && !found->second.answered) sources_.erase(found);
}

bool HalfOpen::is_silent(const wire::Gid& source) const {
  const auto found = sources_.find(source);
  return found == sources_.end() || !found->second.answered;
}

void HalfOpen::answered(const wire::Gid& source) {
  Source& known = sources_[source];
  if (known.answered) return;
  known.answered = true;
  if (++answered_ > kMaxAnswered) forget_idle();
}

// Any one with nothing half open; if all have, each is one of a bounded number.
void HalfOpen::forget_idle() {
  const auto idle = std::ranges::find_if(
      sources_, [](const auto& one) { return one.second.answered && one.second.half_open == 0; });
  if (idle == sources_.end()) return;
  sources_.erase(idle);
  --answered_;
}

Connection* HalfOpen::Line::find(const ConnectionTable& table, const Place& place) const {
  Connection* const c = table.find(place.id.value);
  return c != nullptr && c->state == state ? c : nullptr;
}

void HalfOpen::Line::push(const ConnectionTable& table, const Connection& c, Time now) {
  // Each place that is given up here was pushed once.
  if (places.size() > 2 * table.size() + 64) {
    std::erase_if(places, [&](const Place& place) { return find(table, place) == nullptr; });
  }
  places.push_back({c.id, now});
}

void HalfOpen::asked(const Connection& c) {
  waiting_.try_emplace(c.listener.value, Line{State::kReqReceived})
      .first->second.push(table_, c, 0);
}

Connection* HalfOpen::oldest_replied(Time now) {
  auto& places = replied_.places;
  for (; !places.empty() && now - places.front().since >= kLeastWait; places.pop_front()) {
    Connection* const c = replied_.find(table_, places.front());
    if (c != nullptr && is_silent(*c)) return c;
  }
  return nullptr;
}

Connection* HalfOpen::oldest_waiting(const Listener& listener, size_t least) {
  const auto found = waiting_.find(listener.id.value);
  return found == waiting_.end() ? nullptr : oldest_silent(found->second, least);
}

Connection* HalfOpen::oldest_waiting_anywhere() {
  for (auto& [listener, line] : waiting_) {
    if (Connection* const c = oldest_silent(line, 1)) return c;
  }
  return nullptr;
}

Connection* HalfOpen::oldest_silent(Line& line, size_t least) const {
  // In a flood it is asked for at every request: who has much is among the first few.
  constexpr size_t kMostLookedAt = 64;
  auto& places = line.places;
  while (!places.empty() && line.find(table_, places.front()) == nullptr) places.pop_front();
  for (size_t i = 0; i < std::min(places.size(), kMostLookedAt); ++i) {
    Connection* const c = line.find(table_, places[i]);
    if (c != nullptr && is_silent(*c) && size_of(c->destination) >= least) return c;
  }
  return nullptr;
}

}  // namespace verbena::cm
