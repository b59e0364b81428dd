// SPDX-License-Identifier: Apache-2.0
// The connections, faults and the checks at the end.
#include "session_sim/world.h"

#include <algorithm>
#include <utility>

#include "session_sim/sim_client.h"
#include "session_sim/sim_server.h"

namespace verbena::session_sim {

using session::Outcome;

namespace {

constexpr Duration kWork = 4 * kSecond;
constexpr Duration kQuiet = 20 * kSecond;  // longer than any deadline, and than silence is noticed
constexpr size_t kMaxClients = 3;

}  // namespace

World::World(const Scenario& scenario, Tally& tally)
    : scenario_(scenario), tally_(tally), random_(scenario.seed) {
  protocol::Limits& limits = server_options_.limits;
  limits.inline_bytes = 64;
  limits.window = static_cast<uint16_t>(1 + random_.below(8));
  limits.result_span = static_cast<uint16_t>(limits.window + random_.below(8));
  limits.keep_alive_ms = 200;
  limits.silence_ms = 1000;
  server_options_.handshake_timeout = kSecond;
  server_options_.bind_timeout = 2 * kSecond;
  // Some servers forget clients soon.
  server_options_.client_memory = random_.below(4) == 0 ? 50 * kMillisecond : 60 * kSecond;
  client_options_.connect_timeout = kSecond;
  client_options_.max_back_off = 200 * kMillisecond;
  if (random_.below(2) == 0) server_options_.secret = client_options_.secret = "a shared secret";
}
World::~World() = default;

Duration World::delay() {
  // Mostly short, now and then long.
  const uint64_t longest = random_.below(10) == 0 ? 300'000 : 3'000;
  return static_cast<Duration>(random_.below(longest)) * kMicrosecond;
}

Duration World::slow_delay() {
  const uint64_t longest = random_.below(3) == 0 ? 500'000 : 3'000;
  return static_cast<Duration>(random_.below(longest)) * kMicrosecond;
}

Duration World::notice_delay() {
  // Never, as far as this connection goes: silence tells.
  if (random_.below(3) == 0) return 3600 * kSecond;
  return delay();
}

void World::violation(const std::string& what) {
  if (violations_.size() < 10) violations_.push_back(what);
}

SimClient* World::live_client(size_t client, uint64_t generation) {
  SimClient* live = client < clients_.size() ? clients_[client].get() : nullptr;
  return live != nullptr && live->generation() == generation ? live : nullptr;
}
SimServer* World::live_server(uint64_t run) {
  return server_ != nullptr && server_->run() == run ? server_.get() : nullptr;
}

// --- side channels

void World::connect_side(size_t client, session::Attempt attempt) {
  const uint64_t id = next_connection_++;
  sides_[id] = {.id = id,
                .client = client,
                .generation = clients_[client]->generation(),
                .attempt = attempt,
                .run = run_};
  events_.after(delay(), [this, id] {
    Side& side = sides_.at(id);
    SimClient* from = live_client(side.client, side.generation);
    SimServer* to = live_server(side.run);
    if (from == nullptr || !side.client_open) return;
    if (to == nullptr || side.cut) {
      side.client_open = side.server_open = false;
      from->machine().on_side_closed(side.attempt, now());
      return from->pump();
    }
    to->machine().on_connection(id, now());
    to->pump();
    from->machine().on_side_connected(side.attempt, now());
    from->pump();
  });
}

Side* World::side_of(size_t client, session::Attempt attempt) {
  for (auto& [id, side] : sides_) {
    if (side.client == client && side.attempt == attempt &&
        live_client(client, side.generation) != nullptr) {
      return &side;
    }
  }
  return nullptr;
}

// Bytes arrive in order, and in pieces of any size.
void World::send_to_server(Side& side, Bytes bytes) {
  if (!side.client_open || side.cut) return;
  const size_t first = random_.below(bytes.size() + 1);
  side.last_to_server = std::max(side.last_to_server, now() + delay());
  events_.at(side.last_to_server, [this, id = side.id, bytes = std::move(bytes), first] {
    const Side& there = sides_.at(id);
    SimServer* to = live_server(there.run);
    if (to == nullptr || there.cut || !there.server_open) return;
    to->machine().on_bytes(id, std::span(bytes).first(first), now());
    to->machine().on_bytes(id, std::span(bytes).subspan(first), now());
    to->pump();
  });
}

void World::send_to_client(uint64_t id, Bytes bytes) {
  Side& side = sides_.at(id);
  if (!side.server_open || side.cut) return;
  side.last_to_client = std::max(side.last_to_client, now() + delay());
  events_.at(side.last_to_client, [this, id, bytes = std::move(bytes)] {
    const Side& there = sides_.at(id);
    SimClient* to = live_client(there.client, there.generation);
    if (to == nullptr || there.cut || !there.client_open) return;
    to->machine().on_side_bytes(there.attempt, bytes, now());
    to->pump();
  });
}

void World::close_by_client(size_t client, session::Attempt attempt) {
  Side* side = side_of(client, attempt);
  if (side == nullptr || !side->client_open) return;
  side->client_open = false;
  side->last_to_server = std::max(side->last_to_server, now() + delay());
  events_.at(side->last_to_server, [this, id = side->id] {
    Side& there = sides_.at(id);
    SimServer* to = live_server(there.run);
    if (to == nullptr || there.cut || !std::exchange(there.server_open, false)) return;
    to->machine().on_connection_closed(id, now());
    to->pump();
  });
}

void World::close_by_server(uint64_t id) {
  Side& side = sides_.at(id);
  if (!std::exchange(side.server_open, false)) return;
  side.last_to_client = std::max(side.last_to_client, now() + delay());
  events_.at(side.last_to_client, [this, id] {
    Side& there = sides_.at(id);
    SimClient* to = live_client(there.client, there.generation);
    if (to == nullptr || there.cut || !std::exchange(there.client_open, false)) return;
    to->machine().on_side_closed(there.attempt, now());
    to->pump();
  });
}

void World::cut(Side& side) {
  if (std::exchange(side.cut, true)) return;
  ++tally_.cuts;
  events_.after(notice_delay(), [this, id = side.id] {
    Side& there = sides_.at(id);
    SimClient* client = live_client(there.client, there.generation);
    if (client == nullptr || !std::exchange(there.client_open, false)) return;
    client->machine().on_side_closed(there.attempt, now());
    client->pump();
  });
  events_.after(notice_delay(), [this, id = side.id] {
    Side& there = sides_.at(id);
    SimServer* server = live_server(there.run);
    if (server == nullptr || !std::exchange(there.server_open, false)) return;
    server->machine().on_connection_closed(id, now());
    server->pump();
  });
}

// --- queue pairs

void World::connect_fabric(size_t client, session::Attempt attempt) {
  const uint64_t id = next_connection_++;
  queue_pairs_[id] = {.id = id,
                      .client = client,
                      .generation = clients_[client]->generation(),
                      .attempt = attempt,
                      .run = run_};
  events_.after(delay(), [this, id] {
    QueuePair& there = queue_pairs_.at(id);
    SimClient* from = live_client(there.client, there.generation);
    SimServer* to = live_server(there.run);
    if (from == nullptr || !there.client_alive) return;
    if (to == nullptr || there.cut) {
      from->machine().on_fabric_failed(there.attempt, now());
      return from->pump();
    }
    to->machine().on_queue_pair(id, now());
    to->pump();
    from->machine().on_fabric_connected(there.attempt, now());
    from->pump();
  });
}

// That of the attempt; 0: the client's last one.
QueuePair* World::queue_pair_of(size_t client, session::Attempt attempt) {
  for (auto it = queue_pairs_.rbegin(); it != queue_pairs_.rend(); ++it) {
    QueuePair& there = it->second;
    if (there.client == client && (attempt == 0 || there.attempt == attempt) &&
        live_client(client, there.generation) != nullptr) {
      return &there;
    }
  }
  return nullptr;
}

QueuePair* World::queue_pair(uint64_t id) { return &queue_pairs_.at(id); }

void World::message_to_server(QueuePair& queue_pair, Bytes message) {
  if (!queue_pair.client_alive || queue_pair.cut) return;
  queue_pair.last_to_server = std::max(queue_pair.last_to_server, now() + delay());
  events_.at(queue_pair.last_to_server, [this, id = queue_pair.id, message = std::move(message)] {
    const QueuePair& there = queue_pairs_.at(id);
    SimServer* to = live_server(there.run);
    if (to == nullptr || there.cut || !there.server_alive) return;
    to->on_message(id, message);
  });
}

void World::message_to_client(uint64_t id, Bytes message) {
  QueuePair& queue_pair = queue_pairs_.at(id);
  if (!queue_pair.server_alive || queue_pair.cut) return;
  queue_pair.last_to_client = std::max(queue_pair.last_to_client, now() + delay());
  events_.at(queue_pair.last_to_client, [this, id, message = std::move(message)] {
    const QueuePair& there = queue_pairs_.at(id);
    SimClient* to = live_client(there.client, there.generation);
    if (to == nullptr || there.cut || !there.client_alive) return;
    to->machine().on_message(there.attempt, message, now());
    to->pump();
  });
}

void World::end_by_client(size_t client, session::Attempt attempt) {
  QueuePair* there = queue_pair_of(client, attempt);
  if (there == nullptr || !std::exchange(there->client_alive, false)) return;
  events_.after(notice_delay(), [this, id = there->id] {
    SimServer* server = live_server(queue_pairs_.at(id).run);
    if (server == nullptr || !queue_pairs_.at(id).server_alive) return;
    end_by_server(id);
    server->machine().on_queue_pair_failed(id, now());
    server->pump();
  });
}

void World::end_by_server(uint64_t id) {
  QueuePair& there = queue_pairs_.at(id);
  if (!std::exchange(there.server_alive, false)) return;
  events_.after(notice_delay(), [this, id] {
    const QueuePair& here = queue_pairs_.at(id);
    SimClient* client = live_client(here.client, here.generation);
    if (client == nullptr || !here.client_alive) return;
    client->machine().on_fabric_failed(here.attempt, now());
    client->pump();
  });
}

void World::cut(QueuePair& queue_pair) {
  if (std::exchange(queue_pair.cut, true)) return;
  ++tally_.cuts;
  events_.after(delay(), [this, id = queue_pair.id] {
    const QueuePair& there = queue_pairs_.at(id);
    SimClient* client = live_client(there.client, there.generation);
    if (client == nullptr || !there.client_alive) return;
    client->machine().on_fabric_failed(there.attempt, now());
    client->pump();
  });
  // Of a server, which waits for messages, only if it sends something.
  events_.after(notice_delay(), [this, id = queue_pair.id] {
    SimServer* server = live_server(queue_pairs_.at(id).run);
    if (server == nullptr || !queue_pairs_.at(id).server_alive) return;
    end_by_server(id);
    server->machine().on_queue_pair_failed(id, now());
    server->pump();
  });
}

// --- memory

uint32_t World::add_region(size_t bytes) {
  const auto rkey = static_cast<uint32_t>(regions_.size() + 1);
  regions_[rkey].bytes.resize(bytes);
  return rkey;
}

// Of a connection that was cut, some packets are still on their way.
Region* World::remote_access(uint64_t id, uint32_t rkey) {
  const QueuePair& there = queue_pairs_.at(id);
  if (!there.client_alive || live_client(there.client, there.generation) == nullptr) return nullptr;
  if (there.cut && random_.below(2) == 0) return nullptr;
  Region& region = regions_.at(rkey);
  if (!region.key_valid) return nullptr;
  ++tally_.remote_accesses;
  if (region.free) {
    violation("RDMA to memory that was given back to its owner (rkey " + std::to_string(rkey) +
              ")");
  }
  return &region;
}

// --- operations

Operation& World::add_operation() {
  const uint64_t token = operations_.size() + 1;
  Operation& operation = operations_[token];
  operation.token = token;
  ++tally_.operations;
  return operation;
}

void World::effect_of(uint64_t token) { ++effects_[token]; }

// --- faults

void World::make_fault(Fault fault) {
  // Whoever died must be back at the end.
  if (now() > work_until_ + kQuiet / 2) return;
  const size_t client = random_.below(clients_.size());
  switch (fault) {
    case Fault::kNone:        return;
    case Fault::kServerDeath: return server_dies();
    case Fault::kClientDeath: return client_dies(client);
    case Fault::kCut:         break;
  }
  const uint64_t which = random_.below(3);
  for (auto& [id, side] : sides_) {
    if (which != 0 && side.client == client && side.client_open) cut(side);
  }
  for (auto& [id, there] : queue_pairs_) {
    if (which != 1 && there.client == client && there.client_alive) cut(there);
  }
}

void World::server_dies() {
  if (server_ == nullptr) return;
  ++tally_.deaths;
  server_->check_no_faults();
  server_->die();
  server_.reset();
  ++run_;
  ++restarts_;
  for (auto& [id, side] : sides_) {
    if (side.client_open) cut(side);
  }
  for (auto& [id, there] : queue_pairs_) {
    if (there.client_alive) cut(there);
  }
  events_.after(delay(), [this] { server_ = std::make_unique<SimServer>(*this, run_); });
}

void World::client_dies(size_t client) {
  if (clients_[client] == nullptr) return;
  ++tally_.deaths;
  clients_[client]->die();
  for (auto& [id, side] : sides_) {
    if (side.client == client && side.client_open) cut(side);
  }
  for (auto& [id, there] : queue_pairs_) {
    if (there.client == client && there.client_alive) cut(there);
  }
  clients_[client].reset();
  events_.after(delay(), [this, client] {
    clients_[client] = std::make_unique<SimClient>(*this, client, ++generations_);
    clients_[client]->start();
  });
}

void World::plan_faults() {
  if (!scenario_.random_faults) return;
  const uint64_t count = random_.below(8);
  for (uint64_t i = 0; i < count; ++i) {
    const auto fault = static_cast<Fault>(1 + random_.below(3));
    events_.after(static_cast<Duration>(random_.below(static_cast<uint64_t>(kWork))),
                  [this, fault] { make_fault(fault); });
  }
}

std::vector<std::string> World::run() {
  work_until_ = now() + kWork;
  server_ = std::make_unique<SimServer>(*this, run_);
  const size_t count = 1 + random_.below(kMaxClients);
  for (size_t i = 0; i < count; ++i) {
    clients_.push_back(std::make_unique<SimClient>(*this, i, ++generations_));
  }
  for (auto& client : clients_) client->start();
  plan_faults();
  const auto before_each = [this](uint64_t event) {
    if (scenario_.fault != Fault::kNone && event == scenario_.fault_at) make_fault(scenario_.fault);
  };
  events_.run(work_until_ + kQuiet, before_each);
  tally_.events += events_.count();
  for (auto& client : clients_) {
    if (client->machine().pending() != 0) violation("requests wait for ever");
    client->close();
  }
  events_.run(work_until_ + 2 * kQuiet, before_each);
  check_end();
  return violations_;
}

void World::check_end() {
  for (const auto& client : clients_) {
    if (!client->closed()) violation("a client was not closed");
    if (client->machine().faults() != 0) violation("a client refused what its server sent");
  }
  server_->check_no_faults();
  if (!server_->machine().idle()) violation("the server still has sessions");
  if (server_->ranges() != 0) violation("ranges of clients that are gone are still registered");
  for (const auto& [token, operation] : operations_) check_operation(operation);
}

void World::check_operation(const Operation& operation) {
  const std::string name = "operation " + std::to_string(operation.token);
  const auto it = effects_.find(operation.token);
  const uint32_t effects = it == effects_.end() ? 0 : it->second;
  const uint32_t most = operation.repeatable ? 1 + static_cast<uint32_t>(restarts_) : 1;
  const bool forgets = server_options_.client_memory < kSecond;
  if (effects > most && !(operation.repeatable && forgets)) {
    violation(name + " took effect " + std::to_string(effects) + " times");
  }
  if (effects > 1) ++tally_.repeated;
  if (operation.client_died) return;
  if (operation.completions != 1) {
    return violation(name + " was completed " + std::to_string(operation.completions) + " times");
  }
  const bool changes = operation.effect == protocol::Effect::kStore;
  switch (operation.outcome) {
    case Outcome::kDone:
      ++tally_.done;
      if (operation.status != protocol::Status::kOk) {
        violation(name + " failed: " + protocol::name_of(operation.status));
      } else if (changes && effects == 0) {
        violation(name + " was acknowledged and took no effect");
      }
      return;
    case Outcome::kUnknown:
      ++tally_.unknown;
      if (!changes) violation(name + " changes nothing, and its outcome is unknown");
      return;
    case Outcome::kTimedOut:
    case Outcome::kCancelled:
      ++tally_.timed_out;
      if (effects != 0) violation(name + " took effect, and its client was told it did not");
      return;
    default: return violation(name + " ended as " + session::name_of(operation.outcome));
  }
}

}  // namespace verbena::session_sim
