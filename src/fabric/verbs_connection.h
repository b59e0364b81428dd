// SPDX-License-Identifier: Apache-2.0
// One connection of the verbs fabric, and how its completions are recognised.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "fabric/fabric.h"
#include "fabric/part_keys.h"
#include "fabric/transfer.h"

namespace verbena::fabric {

// What a work request is; the upper byte of its id.
enum class Work : uint8_t {
  kReceive,    // of the shared receive queue; the rest of the id is the buffer
  kMessage,    // the rest is the buffer
  kPart,       // of an operation, not its last request; the rest is the transfer's number
  kOperation,  // its last request
  kLast,       // posted by end(): completes behind all others
};
constexpr uint64_t work_id(Work work, uint64_t what) {
  return static_cast<uint64_t>(work) << 56 | what;
}
constexpr Work work_of(uint64_t id) { return static_cast<Work>(id >> 56); }
constexpr uint64_t what_of(uint64_t id) { return id & ((uint64_t{1} << 56) - 1); }

struct Connection {
  enum class State : uint8_t {
    kResolving,  // connect(): address and route
    kConnecting,
    kConnected,
    kFailed,  // the owner has not called end() yet
    kEnding,  // the queue pair is in the error state; its completions are on their way
  };
  // A piece of memory that is used by a key.
  struct KeyUse {
    PartKeys::Handle key = nullptr;
    Local local;
    uint32_t lkey = 0;  // of the memory
  };
  // An operation of which requests are posted, or about to be.
  struct Posted {
    OperationId operation = 0;
    bool good = true;
    bool is_read = false;
    std::vector<KeyUse> keys{};
    size_t configured = 0;      // of them
    std::vector<Local> crcs{};  // that are not the device's business
  };

  struct Message {
    uint32_t buffer = 0;
    uint32_t bytes = 0;
  };

  ConnectionId id = 0;
  State state = State::kResolving;
  bool accepted = false;    // a peer asked for it
  bool reported = false;    // the handler knows of it
  bool wants_room = false;  // message_room() had none
  bool waiting = false;     // in VerbsFabric::waiting_
  rdma_cm_id* cm = nullptr;
  ibv_qp* qp = nullptr;
  uint32_t outstanding = 0;  // work requests that are posted, and messages to be
  uint32_t messages = 0;     // of them
  std::vector<Message> unposted;
  std::vector<uint8_t> private_data;  // of ours, to be sent
  std::deque<Transfer> backlog;
  std::unordered_map<uint64_t, Posted> posted;  // by the transfer's number
};

}  // namespace verbena::fabric
