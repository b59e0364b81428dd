// SPDX-License-Identifier: Apache-2.0
// The multicast groups whose packets the kernel lets in. Sockets that do nothing else hold the
// memberships, on every interface, because the kernel allows one socket only a few of them.
//
// Each process has a copy of every packet for a group that any on the host has joined, whatever the
// steering says, and the transport drops what is not for it. It would be less to drop if those
// without a group refused them all (IP_MULTICAST_ALL); but where one socket alone takes a packet,
// Linux 6.6 and later gives it to one of its reuseport group as if it were not for a group.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/unique_fd.h"
#include "wire/gid.h"

namespace verbena::link {

class MulticastGroups {
 public:
  // Once more for each call. 0 or errno: then nothing has changed.
  [[nodiscard]] int join(const wire::Gid& group);
  // One join() less.
  void leave(const wire::Gid& group);
  // Interfaces may have come.
  void on_addresses_changed();
  // In a forked child.
  void abandon() { groups_.clear(); }

 private:
  struct Held {
    uint32_t users = 0;
    std::vector<UniqueFd> sockets;
  };
  [[nodiscard]] static int join_everywhere(const wire::Gid& group, std::vector<UniqueFd>& sockets);

  std::map<wire::Gid, Held> groups_;
};

}  // namespace verbena::link
