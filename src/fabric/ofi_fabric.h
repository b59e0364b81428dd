// SPDX-License-Identifier: Apache-2.0
// The fabric over libfabric: reliable datagram endpoints with RMA, of any provider that has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/fabric.h"

namespace verbena::fabric {

struct OfiOptions {
  // As libfabric calls it: "tcp;ofi_rxm", "shm", or without the layer above it: "tcp".
  std::string provider = "tcp";
  std::string
      libraries{};  // of libibverbs and librdmacm, for providers over verbs (OfiLibrary::load)
  uint32_t message_bytes = 36 * 1024;
  uint32_t receives = 32;  // messages that wait to be polled, of each connection
  uint32_t sends = 512;    // messages on their way, of all connections
  uint32_t sends_per_connection = 160;
  uint32_t work_requests = 256;     // of a connection, messages among them
  uint32_t max_connections = 1100;  // peers beyond are rejected
  uint32_t max_beginners = 64;      // of them, not connected yet: one more closes the oldest
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> open_ofi_fabric(const OfiOptions& options);

}  // namespace verbena::fabric
