// SPDX-License-Identifier: Apache-2.0
#include "cm/listeners.h"

namespace verbena::cm {

Result<ListenerId, Error> Listeners::add(const ListenParams& params) {
  const auto [begin, end] = by_service_.equal_range(params.service_id);
  for (auto at = begin; at != end; ++at) {
    const wire::AddressSet& taken = find(at->second)->params.address;
    if (!taken.listens_beside(params.address)) return fail(Error::kInUse);
  }
  const ListenerId id(++last_id_);
  by_service_.emplace(params.service_id, id);
  by_id_.emplace(id.value, Listener{.id = id, .params = params});
  return id;
}

bool Listeners::remove(ListenerId id) {
  const Listener* const listener = find(id);
  if (listener == nullptr) return false;
  const auto [begin, end] = by_service_.equal_range(listener->params.service_id);
  for (auto at = begin; at != end; ++at) {
    if (at->second == id) {
      by_service_.erase(at);
      break;
    }
  }
  by_id_.erase(id.value);
  return true;
}

Listener* Listeners::find(ListenerId id) {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : &found->second;
}

Listener* Listeners::match(uint64_t service_id, const wire::Gid& address) {
  Listener* for_many = nullptr;
  const auto [begin, end] = by_service_.equal_range(service_id);
  for (auto at = begin; at != end; ++at) {
    Listener* const listener = find(at->second);
    const wire::AddressSet& bound = listener->params.address;
    if (!bound.contains(address)) continue;
    if (bound.is_one()) return listener;
    for_many = listener;
  }
  return for_many;
}

}  // namespace verbena::cm
