// SPDX-License-Identifier: Apache-2.0
// The multicast groups whose packets the kernel lets in. Sockets that do nothing else hold the
// memberships, on every interface, because the kernel allows one socket only a few of them. The
// receive sockets take what any group on the host brings (listen_to_groups), and the transport
// drops what nobody here has joined: until a first group is joined they take none.
//
// Each joined process has a copy of every packet from the kernel, whatever the steering says.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/unique_fd.h"
#include "link/udp_socket.h"
#include "wire/gid.h"

namespace verbena::link {

// Whether this receive socket takes packets for groups. 0 or errno.
[[nodiscard]] int listen_to_groups(int fd, Family family, bool listen);

class Memberships {
 public:
  // Once more for each call. 0 or errno: then nothing has changed.
  [[nodiscard]] int join(const wire::Gid& group);
  // One join() less.
  void leave(const wire::Gid& group);
  // Interfaces may have come.
  void on_addresses_changed();
  [[nodiscard]] bool any(Family family) const;
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
