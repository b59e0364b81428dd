// SPDX-License-Identifier: Apache-2.0
// One simulated world: clients, a server that may be started anew, the connections between them,
// and the memory of the clients, which the server reaches through queue pairs. All of it follows
// from one seed (and, for faults at a given step, from the number of that step).
//
// What may go wrong: a connection is cut, and what is in flight in it is lost; its two ends notice
// at different times, or by silence alone; a client or the server dies and a new one starts; RDMA
// that was on its way arrives late, after its initiator is gone. What may not: see check_end().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "session/client.h"
#include "session/server.h"
#include "session_sim/events.h"

namespace verbena::session_sim {

using Bytes = std::vector<uint8_t>;

class SimClient;
class SimServer;

// A TCP connection.
struct Side {
  uint64_t id = 0;
  size_t client = 0;
  uint64_t generation = 0;  // of the client
  session::Attempt attempt = 0;
  uint64_t run = 0;  // of the server
  bool client_open = true;
  bool server_open = true;
  bool cut = false;
  Time last_to_server = 0;
  Time last_to_client = 0;
};

// A reliable connection.
struct QueuePair {
  uint64_t id = 0;
  size_t client = 0;
  uint64_t generation = 0;
  session::Attempt attempt = 0;
  uint64_t run = 0;
  bool client_alive = true;  // not in the error state
  bool server_alive = true;
  bool cut = false;
  Time last_to_server = 0;
  Time last_to_client = 0;
};

// A piece of a client's memory, registered under a key of its own. The key stays valid when the
// request is over, as those of cached registrations do.
struct Region {
  Bytes bytes;
  bool key_valid = true;
  bool free = false;  // its owner was told that the request is over
};

// What a request of a client should do; its token is in the request, so that the server sees it.
struct Operation {
  uint64_t token = 0;
  session::RequestId id = 0;
  protocol::Effect effect = protocol::Effect::kNone;
  bool repeatable = false;
  bool client_died = false;
  uint32_t completions = 0;
  session::Outcome outcome = session::Outcome::kDone;
  protocol::Status status = protocol::Status::kOk;
  uint32_t rkey = 0;  // of its memory; 0: none
  Time deadline = 0;
};

enum class Fault : uint8_t { kNone, kCut, kClientDeath, kServerDeath };

struct Scenario {
  uint64_t seed = 1;
  // Faults at random, or one at a given event.
  bool random_faults = true;
  Fault fault = Fault::kNone;
  uint64_t fault_at = 0;
};

// Sums over many worlds, to show what they reached.
struct Tally {
  uint64_t operations = 0;
  uint64_t done = 0;
  uint64_t unknown = 0;
  uint64_t timed_out = 0;
  uint64_t resumed = 0;
  uint64_t from_memory = 0;
  uint64_t fences = 0;
  uint64_t deaths = 0;
  uint64_t cuts = 0;
  uint64_t remote_accesses = 0;
  uint64_t repeated = 0;
  uint64_t events = 0;
  bool operator==(const Tally&) const = default;
};

class World {
 public:
  World(const Scenario& scenario, Tally& tally);
  ~World();
  // What was violated; empty: nothing.
  [[nodiscard]] std::vector<std::string> run();

  // --- for the ends
  [[nodiscard]] Events& events() { return events_; }
  [[nodiscard]] RandomSource& random() { return random_; }
  [[nodiscard]] Tally& tally() { return tally_; }
  [[nodiscard]] Time now() const { return events_.now(); }
  [[nodiscard]] Duration delay();         // of a message, or of a step of an end
  [[nodiscard]] Duration slow_delay();    // of RDMA, and of ending a queue pair
  [[nodiscard]] Duration notice_delay();  // until an end of a cut connection notices
  void violation(const std::string& what);

  void connect_side(size_t client, session::Attempt attempt);
  void send_to_server(Side& side, Bytes bytes);
  void send_to_client(uint64_t side, Bytes bytes);
  void close_by_client(size_t client, session::Attempt attempt);
  void close_by_server(uint64_t side);
  [[nodiscard]] Side* side_of(size_t client, session::Attempt attempt);

  void connect_fabric(size_t client, session::Attempt attempt);
  [[nodiscard]] QueuePair* queue_pair_of(size_t client, session::Attempt attempt);
  [[nodiscard]] QueuePair* queue_pair(uint64_t id);
  void message_to_server(QueuePair& queue_pair, Bytes message);
  void message_to_client(uint64_t queue_pair, Bytes message);
  // In the error state, for this end.
  void end_by_client(size_t client, session::Attempt attempt);
  void end_by_server(uint64_t queue_pair);

  [[nodiscard]] uint32_t add_region(size_t bytes);
  [[nodiscard]] Region& region(uint32_t rkey) { return regions_.at(rkey); }
  // The client's end of an RDMA operation that arrives there now: nullptr if it is refused.
  [[nodiscard]] Region* remote_access(uint64_t queue_pair, uint32_t rkey);

  [[nodiscard]] Operation& add_operation();
  [[nodiscard]] Operation& operation(uint64_t token) { return operations_.at(token); }
  void effect_of(uint64_t token);  // the store was changed

  [[nodiscard]] const session::ServerOptions& server_options() const { return server_options_; }
  [[nodiscard]] const session::ClientOptions& client_options() const { return client_options_; }
  // Clients make operations as long as this holds.
  [[nodiscard]] bool working() const { return now() < work_until_; }

 private:
  void make_fault(Fault fault);
  void cut(Side& side);
  void cut(QueuePair& queue_pair);
  void server_dies();
  void client_dies(size_t client);
  void plan_faults();
  void check_end();
  void check_operation(const Operation& operation);
  [[nodiscard]] SimClient* live_client(size_t client, uint64_t generation);
  [[nodiscard]] SimServer* live_server(uint64_t run);

  Scenario scenario_;
  Tally& tally_;
  SeededRandom random_;
  Events events_;
  session::ServerOptions server_options_;
  session::ClientOptions client_options_;
  Time work_until_ = 0;
  std::vector<std::string> violations_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  uint64_t generations_ = 0;
  std::unique_ptr<SimServer> server_;
  uint64_t run_ = 0;
  uint64_t restarts_ = 0;
  std::map<uint64_t, Side> sides_;
  std::map<uint64_t, QueuePair> queue_pairs_;
  std::map<uint32_t, Region> regions_;
  std::map<uint64_t, Operation> operations_;
  std::map<uint64_t, uint32_t> effects_;  // by token
  uint64_t next_connection_ = 1;
};

}  // namespace verbena::session_sim
