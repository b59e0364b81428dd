// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction_queue.h"

#include <algorithm>

namespace verbena::cache {

void EvictionQueue::put(std::deque<Entry>& queue, const Segment& segment, State& state,
                        Place place) {
  state.place = place;
  state.ticket = ++tickets_;
  queue.push_back({segment, state.ticket});
}

void EvictionQueue::add(const Segment& segment) {
  const auto [found, fresh] = known_.try_emplace(segment);
  State& state = found->second;
  if (!fresh && state.place != Place::kOut) return;
  const bool again = !fresh;
  if (again) --remembered_;
  state.uses = 0;
  ++(again ? in_main_ : on_probation_);
  put(again ? main_ : probation_, segment, state, again ? Place::kMain : Place::kProbation);
}

void EvictionQueue::use(const Segment& segment) {
  const auto found = known_.find(segment);
  if (found == known_.end() || found->second.place == Place::kOut) return;
  found->second.uses = std::min<uint8_t>(kMaxUses, static_cast<uint8_t>(found->second.uses + 1));
}

std::set<ObjectId> EvictionQueue::objects() const {
  std::set<ObjectId> objects;
  for (const auto& [segment, state] : known_) objects.insert(segment.object);
  return objects;
}

void EvictionQueue::forget(const std::set<ObjectId>& objects) {
  if (objects.empty()) return;
  for (auto at = known_.begin(); at != known_.end();) {
    if (!objects.contains(at->first.object)) {
      ++at;
      continue;
    }
    switch (at->second.place) {
      case Place::kProbation: --on_probation_; break;
      case Place::kMain:      --in_main_; break;
      case Place::kOut:       --remembered_; break;
    }
    at = known_.erase(at);
  }
  for (auto* const queue : {&probation_, &main_, &out_}) drop_outdated(*queue);
}

void EvictionQueue::drop_outdated(std::deque<Entry>& queue) {
  std::erase_if(queue, [this](const Entry& entry) {
    const auto found = known_.find(entry.segment);
    return found == known_.end() || found->second.ticket != entry.ticket;
  });
}

EvictionQueue::State* EvictionQueue::front(std::deque<Entry>& queue) {
  const auto found = known_.find(queue.front().segment);
  return found != known_.end() && found->second.ticket == queue.front().ticket ? &found->second
                                                                               : nullptr;
}

std::optional<Segment> EvictionQueue::next_on_probation() {
  while (!probation_.empty()) {
    State* const state = front(probation_);
    const Segment segment = probation_.front().segment;
    probation_.pop_front();
    if (state == nullptr) continue;
    --on_probation_;
    if (state->uses > 0) {
      state->uses = 0;
      ++in_main_;
      put(main_, segment, *state, Place::kMain);
      continue;
    }
    ++remembered_;
    put(out_, segment, *state, Place::kOut);
    forget_some();
    return segment;
  }
  return std::nullopt;
}

std::optional<Segment> EvictionQueue::next_of_main() {
  while (!main_.empty()) {
    State* const state = front(main_);
    const Segment segment = main_.front().segment;
    main_.pop_front();
    if (state == nullptr) continue;
    if (state->uses > 0) {
      --state->uses;
      put(main_, segment, *state, Place::kMain);
      continue;
    }
    --in_main_;
    known_.erase(segment);
    return segment;
  }
  return std::nullopt;
}

std::optional<Segment> EvictionQueue::next() {
  const bool probation_first = on_probation_ * 10 >= size() || in_main_ == 0;
  if (probation_first) {
    if (auto segment = next_on_probation()) return segment;
  }
  if (auto segment = next_of_main()) return segment;
  return next_on_probation();
}

// As many as there are here.
void EvictionQueue::forget_some() {
  while (!out_.empty() && (remembered_ > std::max<size_t>(size(), 16) || front(out_) == nullptr)) {
    if (front(out_) != nullptr) {
      known_.erase(out_.front().segment);
      --remembered_;
    }
    out_.pop_front();
  }
}

}  // namespace verbena::cache
