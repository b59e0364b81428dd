// SPDX-License-Identifier: Apache-2.0
// One connection of the fabric over libfabric.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rdma/fabric.h>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/message_pool.h"
#include "fabric/ofi_control.h"
#include "fabric/ofi_endpoint.h"
#include "fabric/transfer.h"

namespace verbena::fabric {

// What each message begins with: the nonce of the receiver (OfiGreeting), and what it is.
inline constexpr size_t kOfiHeaderBytes = 16;
inline constexpr size_t kOfiSequenceAt = 12;  // a u32 that counts messages
// When to ask libfabric again for what it did not take, or does not tell of.
inline constexpr Duration kOfiTryAgain = 50 * kMicrosecond;
enum class OfiMessage : uint8_t {
  kData = 0,
  kImmediate = 1,  // a u32 follows: the peer has written to our memory
  kHello = 2,      // of who has asked for the connection, before all others
};

// Something that was handed to libfabric and has not completed. `context` is libfabric's meanwhile.
struct OfiWork {
  enum class Kind : uint8_t { kReceive, kMessage, kOperation } kind = Kind::kReceive;
  fi_context2 context{};
  uint32_t buffer = 0;    // of a receive, or a message
  uint64_t transfer = 0;  // of an operation; 0: it is not told of
  bool busy = false;
};
[[nodiscard]] inline OfiWork& work_of_context(void* context) {
  return *reinterpret_cast<OfiWork*>(static_cast<uint8_t*>(context) - offsetof(OfiWork, context));
}

struct OfiConnection {
  enum class State : uint8_t {
    kGreeting,  // the control connection is being made, or greetings are on their way
    kConnected,
    kFailed,  // the owner has not called end() yet
    kEnding,
  };
  // An operation of which requests are posted, or about to be.
  struct Posted {
    OperationId operation = 0;
    bool good = true;
    uint32_t requests = 0;  // that have not completed
    bool all = false;       // there are no more to be posted
    std::vector<Local> crcs{};
  };
  // Told to the peer in this order, each when its data has arrived.
  struct Immediate {
    uint64_t transfer = 0;
    uint32_t value = 0;
    bool arrived = false;
  };
  struct Message {
    uint32_t buffer = 0;
    uint32_t bytes = 0;  // with the header
    uint64_t immediate_of = 0;
  };
  // A request that libfabric did not take yet.
  struct Request {
    bool is_read = false;
    uint64_t transfer = 0;
    Transfer::Step step{};
    std::vector<ibv_sge> parts{};
  };

  ConnectionId id = 0;
  State state = State::kGreeting;
  bool accepted = false;    // a peer asked for it
  bool greeted = false;     // accepted: the peer's greeting has come, and was answered
  bool reported = false;    // the handler knows of it
  bool wants_room = false;  // message_room() had none
  bool waiting = false;     // in OfiFabric::waiting_
  bool ring = false;        // the peer is to be woken
  bool found = false;       // a message has come, or gone: the endpoints have found each other
  bool owes_hello = false;  // there was no room for it yet
  bool stuck = false;       // libfabric took no more: try again
  // How it ends where endpoints share memory with their peers (OfiFabric::settle()).
  bool said_ending = false;
  bool said_drained = false;
  bool peer_ending = false;
  bool peer_drained = false;
  bool peer_gone = false;     // its control connection is
  bool same_process = false;  // the peer is in
  bool disconnected = false;  // by OfiEndpoint::disconnect()
  bool abandoned = false;     // the endpoint cannot be closed: it is left as it is
  bool closing = false;       // on_ended() is about to be told
  uint32_t watched = 0;       // epoll's events of the control connection
  OfiControl control;
  std::string node;               // its endpoint: an IP address, or its name
  std::vector<uint8_t> greeting;  // what has come of the peer's
  std::vector<uint8_t> data;      // of ours, to be sent
  uint64_t nonce = 0;             // of messages to us
  uint64_t peer_nonce = 0;
  uint32_t sent_count = 0;
  uint32_t received_count = 0;
  std::map<uint32_t, std::pair<uint32_t, size_t>> early;  // by their count: buffer and bytes
  Time since = 0;     // that it is there; without the peer's greeting it goes
  Time progress = 0;  // when a message was sent, or the first of those on their way begun
  Time rung = 0;
  Time ending = 0;  // since when

  // Of these, the endpoint goes first.
  std::deque<OfiWork> works;
  std::vector<OfiWork*> idle_works;
  std::unique_ptr<MessagePool> received;
  UniqueFid<fid_mr> received_key;
  std::unique_ptr<OfiEndpoint> endpoint;

  uint32_t outstanding = 0;  // requests and messages that have not completed
  uint32_t messages = 0;     // of them
  std::deque<Message> unposted;
  std::deque<Transfer> backlog;
  std::optional<Request> refused;
  std::deque<Immediate> immediates;
  std::unordered_map<uint64_t, Posted> posted;  // by the transfer's number

  // What libfabric has of it.
  [[nodiscard]] size_t under_way() const { return outstanding - unposted.size(); }
};

}  // namespace verbena::fabric
