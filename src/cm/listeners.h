// SPDX-License-Identifier: Apache-2.0
// Who listens for what in this process.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/result.h"
#include "cm/types.h"

namespace verbena::cm {

struct Listener {
  ListenerId id{};
  ListenParams params{};
  uint32_t waiting = 0;  // requests that the program has not answered

  [[nodiscard]] bool backlog_full() const { return waiting >= params.backlog; }
};

class Listeners {
 public:
  [[nodiscard]] Result<ListenerId, Error> add(const ListenParams& params);
  [[nodiscard]] bool remove(ListenerId id);
  [[nodiscard]] Listener* find(ListenerId id);
  // The one that a request for this service at this address is for.
  [[nodiscard]] Listener* match(uint64_t service_id, const wire::Gid& address);

 private:
  uint64_t last_id_ = 0;
  std::unordered_multimap<uint64_t, ListenerId> by_service_;
  std::unordered_map<uint64_t, Listener> by_id_;
};

}  // namespace verbena::cm
