// SPDX-License-Identifier: Apache-2.0
// Multicast groups: which queue pairs receive what is sent to a group's address.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/types.h"
#include "wire/gid.h"

namespace verbena::transport {

struct QueuePair;

class Groups {
 public:
  static constexpr size_t kMaxGroups = 256;
  static constexpr size_t kMaxMembers = 256;  // of one group

  // A member twice is one once.
  [[nodiscard]] Result<void, Error> attach(const wire::Gid& group, QueuePair& qp);
  [[nodiscard]] Result<void, Error> detach(const wire::Gid& group, QueuePair& qp);
  [[nodiscard]] bool is_member(const wire::Gid& group, const QueuePair& qp) const;
  [[nodiscard]] std::vector<wire::Gid> of(const QueuePair& qp) const;
  [[nodiscard]] std::span<QueuePair* const> members(const wire::Gid& group) const;

 private:
  std::map<wire::Gid, std::vector<QueuePair*>> groups_;  // none is empty
};

}  // namespace verbena::transport
