// SPDX-License-Identifier: Apache-2.0
#include "transport/groups.h"

#include <algorithm>

namespace verbena::transport {

Result<void, Error> Groups::attach(const wire::Gid& group, QueuePair& qp) {
  if (is_member(group, qp)) return {};
  const auto place = groups_.find(group);
  if (place != groups_.end() ? place->second.size() == kMaxMembers : groups_.size() == kMaxGroups) {
    return fail(Error::kTooMany);
  }
  if (place != groups_.end()) {
    place->second.push_back(&qp);
  } else {
    groups_.emplace(group, std::vector<QueuePair*>{&qp});
  }
  return {};
}

Result<void, Error> Groups::detach(const wire::Gid& group, QueuePair& qp) {
  if (!is_member(group, qp)) return fail(Error::kInvalid);
  const auto place = groups_.find(group);
  std::erase(place->second, &qp);
  if (place->second.empty()) groups_.erase(place);
  return {};
}

bool Groups::is_member(const wire::Gid& group, const QueuePair& qp) const {
  return std::ranges::find(members(group), &qp) != members(group).end();
}

std::vector<wire::Gid> Groups::of(const QueuePair& qp) const {
  std::vector<wire::Gid> joined;
  for (const auto& [group, members] : groups_) {
    if (std::ranges::find(members, &qp) != members.end()) joined.push_back(group);
  }
  return joined;
}

std::span<QueuePair* const> Groups::members(const wire::Gid& group) const {
  const auto place = groups_.find(group);
  return place != groups_.end() ? std::span<QueuePair* const>(place->second)
                                : std::span<QueuePair* const>();
}

}  // namespace verbena::transport
