// SPDX-License-Identifier: Apache-2.0
// The fabric between a server and its clients: connections that carry messages, and over which the
// server reads and writes the client's memory. Owned by one thread, which calls poll() when fd() is
// readable; nothing here waits.
//
//   connect(), or a peer's     -> on_connected -> messages, operations -> on_failed -> end() ->
//                                                                  `------------------> on_ended
//
// After on_ended() nothing of the connection touches memory any more, on either side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::fabric {

using ConnectionId = uint64_t;  // none is used twice; never 0
using OperationId = uint64_t;   // the caller's

template <typename T>
using Result = verbena::Result<T, std::string>;  // for people: what happened, to what

struct Endpoint {
  std::string host;  // numeric, or a name; empty: any
  uint16_t port = 0;
};

// A fabric at which peers can connect.
struct Offer {
  std::string kind;
  uint16_t port = 0;
};

// The peer's memory, as it said.
struct Remote {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};
// Our own: `count` parts of `bytes` each, `stride` apart, all of it in memory that was added.
struct Local {
  uint8_t* memory = nullptr;
  uint32_t bytes = 0;
  uint32_t stride = 0;
  uint32_t count = 1;
  // Not 0: each part has a CRC-32/BZIP2 of its bytes, big-endian, so far from its beginning. read()
  // stores it; write() checks it, and is not good if one is wrong: then what the peer has got is
  // not to be used, and the connection goes on.
  uint32_t crc_at = 0;
};

// A piece of memory that the fabric may use.
struct Key {
  uint64_t number = 0;   // none is used twice
  uint32_t remote = 0;   // the rkey; 0: peers may not
  uint64_t address = 0;  // of the first byte, as peers say it (Remote::address)
};

class Handler {
 public:
  virtual ~Handler() = default;
  // A peer wants to connect, with what it says about itself, padded with zeros: what we say of us,
  // or nullopt to reject it.
  [[nodiscard]] virtual std::optional<std::vector<uint8_t>> on_request(
      ConnectionId /*connection*/, std::span<const uint8_t> /*data*/) {
    return std::vector<uint8_t>();
  }
  // What the peer said of itself when it accepted, likewise; on_connected() follows.
  virtual void on_accepted(ConnectionId /*connection*/, std::span<const uint8_t> /*data*/) {}
  virtual void on_connected(ConnectionId connection) = 0;
  // The bytes are the handler's until it returns.
  virtual void on_message(ConnectionId connection, std::span<const uint8_t> message) = 0;
  // The peer has written to our memory, with this.
  virtual void on_immediate(ConnectionId /*connection*/, uint32_t /*immediate*/) {}
  // There may be room for messages where there was none.
  virtual void on_sendable(ConnectionId connection) = 0;
  virtual void on_done(ConnectionId connection, OperationId operation, bool good) = 0;
  // No more messages: end() it. Operations are still on their way.
  virtual void on_failed(ConnectionId connection, std::string_view why) = 0;
  virtual void on_ended(ConnectionId connection) = 0;
};

class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  // For people: "verbs, verbena0".
  [[nodiscard]] virtual std::string name() const = 0;
  // By which two ends know that they use the same: "verbs", "ofi:tcp;ofi_rxm".
  [[nodiscard]] virtual std::string kind() const { return "verbs"; }
  // Of those that are several, or one: where each listens. None: it does not.
  [[nodiscard]] virtual std::vector<Offer> offers() const { return {}; }
  [[nodiscard]] virtual size_t message_bytes() const = 0;
  // Whether the device makes and checks the CRCs of such parts while it moves them, if they are
  // many. Otherwise it is done here, by a pass over the data.
  [[nodiscard]] virtual bool device_makes_crcs(uint32_t /*bytes*/) const { return false; }

  // Where it listens: with a port if none was asked for.
  [[nodiscard]] virtual Result<Endpoint> listen(const Endpoint& at) = 0;
  // on_connected() or on_failed() follows. `data`, of at most 56 bytes, is for the peer.
  [[nodiscard]] virtual ConnectionId connect(const Endpoint& to, std::span<const uint8_t> data) = 0;
  [[nodiscard]] ConnectionId connect(const Endpoint& to) { return connect(to, {}); }

  // Memory that operations use, which is added once at a time; or, if `remote`, memory that peers
  // use, where pieces may overlap. Until it is removed, which nobody does while it is used. These
  // two may be called by any thread.
  [[nodiscard]] virtual Result<Key> add_memory(uint8_t* memory, size_t bytes, bool remote) = 0;
  virtual void remove_memory(const Key& key) = 0;

  // Where to put the next message; empty: on_sendable() comes. Then send() so many of its bytes, or
  // ask again. Messages go together with flush(), and with the next poll() or arm().
  [[nodiscard]] virtual std::span<uint8_t> message_room(ConnectionId connection) = 0;
  virtual void send(ConnectionId connection, size_t bytes) = 0;
  virtual void flush() = 0;

  // From the peer's memory into ours, and back; both of the same length in all. on_done() follows,
  // once for each.
  virtual void read(ConnectionId connection, std::span<const Remote> from,
                    std::span<const Local> to, OperationId operation) = 0;
  virtual void write(ConnectionId connection, std::span<const Local> from,
                     std::span<const Remote> to, OperationId operation) = 0;

  // From one piece of our memory, or none at all, and the peer is told. As many at once as there
  // are work requests of a connection (8 less): one more is not done.
  virtual void write_immediate(ConnectionId connection, std::span<const uint8_t> from,
                               const Remote& to, uint32_t immediate, OperationId operation) = 0;

  // Nothing arrives any more; what is on its way fails. on_ended() follows.
  virtual void end(ConnectionId connection) = 0;

  // Calls the handler for what has happened; how much. After arm() fd() becomes readable when there
  // is more; what happened before must be polled once again.
  virtual size_t poll(Handler& handler) = 0;
  virtual void arm() = 0;
  // fd() is readable. Whoever polls without this is told of connections some polls later.
  virtual void woken() = 0;
  [[nodiscard]] virtual int fd() const = 0;
};

}  // namespace verbena::fabric
