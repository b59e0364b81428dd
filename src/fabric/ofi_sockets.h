// SPDX-License-Identifier: Apache-2.0
// Sockets that libfabric has for an endpoint, which its interface does not give out.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace verbena::fabric {

// Shuts down the TCP connections of this process between an endpoint at the address `own` and one
// at `peer` (each a sockaddr): those at our endpoint's port, and those that were made to the
// peer's. The provider learns it as if the peer had gone, and tells of all that was under way.
// Nothing arrives after it. Sockets are looked for among all descriptors of the process: it is for
// peers that do not behave. `peer` is the peer's own word, and may be where somebody else has
// connected to us from: what was accepted elsewhere than at our endpoint is left alone.
void shut_down_sockets(std::span<const uint8_t> own, std::span<const uint8_t> peer);

// What libfabric 1.17 has accepted at an endpoint and never answered, because not all of a request
// has come, it forgets when the endpoint is closed, and leaves open. Anybody who finds the endpoint
// could use up our descriptors so.
class UnansweredSockets {
 public:
  // Of the endpoint at this address (a sockaddr), before it is closed.
  explicit UnansweredSockets(std::span<const uint8_t> own);
  // After it was: those that are still there.
  void close_forgotten() const;

 private:
  std::vector<std::pair<int, ino_t>> all_;
};

}  // namespace verbena::fabric
