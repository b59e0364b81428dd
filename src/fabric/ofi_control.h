// SPDX-License-Identifier: Apache-2.0
// The control connection of a connection over libfabric: TCP, which never waits. Endpoints of
// libfabric know neither connections nor their end; this one says both, whoever was killed. After
// the greetings single bytes wake a peer that has nothing else to sleep on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/socket.h>

#include "base/unique_fd.h"
#include "fabric/fabric.h"

namespace verbena::fabric {

class OfiControl {
 public:
  OfiControl() = default;
  explicit OfiControl(UniqueFd accepted);
  // Begins to connect.
  [[nodiscard]] static Result<OfiControl> connect(const sockaddr_storage& to);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool connecting() const { return connecting_; }
  [[nodiscard]] bool wants_to_write() const { return connecting_ || !unsent_.empty(); }
  void send(std::span<const uint8_t> bytes);
  // One byte, unless there are others on their way.
  void wake();
  // Sends and receives what it can: received bytes are added to `to`, at most `most` of them are
  // kept. False: it is broken, or ended by the peer; why() says so.
  [[nodiscard]] bool progress(std::vector<uint8_t>& to, size_t most);
  [[nodiscard]] const std::string& why() const { return why_; }
  // Numeric, without a port: by which address the peer is reached, and which one it has.
  [[nodiscard]] std::string own_host() const;
  [[nodiscard]] std::string peer_host() const;

 private:
  UniqueFd fd_;
  bool connecting_ = false;
  std::vector<uint8_t> unsent_;
  std::string why_;
};

// As text, numeric, without a port; empty: it is no IP address.
[[nodiscard]] std::string host_of(const sockaddr* address, socklen_t bytes);

}  // namespace verbena::fabric
