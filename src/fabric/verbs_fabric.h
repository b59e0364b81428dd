// SPDX-License-Identifier: Apache-2.0
// The fabric over verbs: reliable connected queue pairs by rdma_cm, on the built-in device or on a
// system's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/fabric.h"

namespace verbena::fabric {

struct VerbsOptions {
  std::string libraries{};  // the folder to load from; empty: the system's (VerbsLibrary::load)
  std::string device{};     // its name; empty: the first there is
  uint32_t message_bytes = 36 * 1024;
  uint32_t receives = 512;  // messages that wait to be polled, of all connections
  uint32_t sends = 512;     // messages on their way, of all connections
  uint32_t sends_per_connection = 160;
  uint32_t work_requests = 256;     // of a connection, messages among them
  uint32_t completions = 16384;     // entries of the completion queue, if the device has as many
  uint32_t part_keys = 1024;        // memory keys at most for memory of many parts; 0: lists
  uint32_t max_connections = 1100;  // peers beyond are rejected
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> open_verbs_fabric(const VerbsOptions& options);

}  // namespace verbena::fabric
