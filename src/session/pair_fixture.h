// SPDX-License-Identifier: Apache-2.0
// For tests: one client and one server, whose actions are carried out at once and in order, except
// where a test wants otherwise. The store is a callback.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "session/client.h"
#include "session/server.h"

namespace verbena::session {

class Pair {
 public:
  using Bytes = std::vector<uint8_t>;

  explicit Pair(ServerOptions server_options = {}, ClientOptions client_options = {})
      : options(std::move(server_options)), client(std::move(client_options), random) {
    restart_server();
  }

  void restart_server() {
    server = std::make_unique<Server>(options, random);
    ++run;
    begun.clear();
    held.clear();
  }

  // Until nothing happens any more.
  void pump() {
    for (bool more = true; more;) {
      more = false;
      for (ClientAction& action : client.take_actions()) {
        more = true;
        std::visit([this](auto& a) { carry_out(a); }, action);
      }
      for (ServerAction& action : server->take_actions()) {
        more = true;
        std::visit([this](auto& a) { carry_out(a); }, action);
      }
      more = send_requests() || more;
    }
  }
  // Time goes on, in steps to where something is due.
  void advance(Duration span) {
    const Time end = now + span;
    pump();
    for (;;) {
      const Time next = std::min(client.next_time(), server->next_time());
      if (next > end) break;
      now = std::max(now, next);
      client.on_time(now);
      server->on_time(now);
      pump();
    }
    now = end;
  }
  bool connect() {
    client.start(now);
    pump();
    return client.active();
  }
  // Both connections break.
  void cut() {
    client.on_side_closed(attempt, now);
    server->on_connection_closed(connection, now);
    pump();
  }

  // Answers a request that was held.
  void answer_held(size_t which) {
    Held request = held.at(which);
    held.erase(held.begin() + static_cast<ptrdiff_t>(which));
    respond(request.session, *protocol::decode_request(request.message, request_seal()));
  }
  void respond(SessionId session, const protocol::Request& request) {
    ++executed[protocol::id_of(request)];
    Bytes room(protocol::kMaxInlineBytes + protocol::kMaxIoOverhead);
    const size_t size = server->respond(session, request, execute(request), room, now);
    if (size == 0 || lose_responses) return;
    room.resize(size);
    client.on_message(attempt, room, now);
  }
  [[nodiscard]] Completion* completion(RequestId id) {
    const auto it = completions.find(id);
    return it == completions.end() ? nullptr : &it->second;
  }
  [[nodiscard]] Outcome outcome(RequestId id) { return completions.at(id).outcome; }

  struct Held {
    SessionId session;
    Bytes message;
  };

  SeededRandom random{1};
  Time now = kSecond;
  ServerOptions options;
  std::unique_ptr<Server> server;
  uint64_t run = 0;
  Client client;
  ConnectionId connection = 0;
  QueuePairId queue_pair = 0;
  Attempt attempt = 0;
  uint16_t fabric_port = 0;  // to which the client was told to connect
  // What the test decides.
  std::function<protocol::Response(const protocol::Request&)> execute =
      [](const protocol::Request& request) {
        return protocol::failure_of(request, protocol::Status::kOk, {});
      };
  std::function<void(Bytes&)> tamper_to_server = [](Bytes&) {};
  std::function<void(Bytes&)> tamper_to_client = [](Bytes&) {};
  bool hold_requests = false;
  bool lose_responses = false;
  bool confirm_steps = true;
  bool confirm_fences = true;
  bool confirm_fabric_end = true;
  bool server_reachable = true;
  // What happened.
  std::vector<Held> held;
  std::map<RequestId, Completion> completions;
  std::map<RequestId, int> executed;
  std::vector<DoEndStep> steps;
  std::vector<SessionBegun> begun;
  std::vector<SessionEnded> ended;
  std::vector<SessionReady> ready;
  std::vector<RequestId> fences;
  std::vector<CloseQueuePair> closed_queue_pairs;
  std::vector<CloseConnection> closed_connections;
  std::vector<Bytes> sent_messages;  // by the client
  std::optional<ClientRefused> refused;
  std::string lost;
  bool closed = false;

 private:
  // The client's messages to a server that does not check them can be decoded by anyone.
  [[nodiscard]] static protocol::Seal request_seal() {
    return protocol::Seal::with_key(0).without_checks();
  }

  void carry_out(ConnectSide& a) {
    attempt = a.attempt;
    ++connection;
    if (!server_reachable) return client.on_side_closed(attempt, now);
    server->on_connection(connection, now);
    client.on_side_connected(attempt, now);
  }
  void carry_out(SendSide& a) {
    tamper_to_server(a.bytes);
    if (a.attempt == attempt) server->on_bytes(connection, a.bytes, now);
  }
  void carry_out(CloseSide& a) {
    if (a.attempt == attempt) server->on_connection_closed(connection, now);
  }
  void carry_out(ConnectFabric& a) {
    fabric_port = a.port;
    if (a.attempt != attempt) return;
    ++queue_pair;
    server->on_queue_pair(queue_pair, now);
    client.on_fabric_connected(attempt, now);
  }
  void carry_out(EndFabric& a) {
    server->on_queue_pair_failed(queue_pair, now);
    if (confirm_fabric_end) client.on_fabric_ended(a.attempt, now);
  }
  void carry_out(Fence& a) {
    fences.push_back(a.id);
    if (confirm_fences) client.on_fenced(a.id, now);
  }
  void carry_out(Completed& a) { completions[a.completion.id] = a.completion; }
  void carry_out(SessionReady& a) { ready.push_back(a); }
  void carry_out(SessionLost& a) { lost = a.why; }
  void carry_out(ClientRefused& a) { refused = a; }
  void carry_out(ClientClosed& /*a*/) { closed = true; }

  void carry_out(SendFrame& a) {
    tamper_to_client(a.bytes);
    if (a.connection == connection) client.on_side_bytes(attempt, a.bytes, now);
  }
  void carry_out(CloseConnection& a) {
    closed_connections.push_back(a);
    if (a.connection == connection) client.on_side_closed(attempt, now);
  }
  void carry_out(SendMessage& a) {
    if (a.queue_pair == queue_pair) client.on_message(attempt, a.bytes, now);
  }
  void carry_out(CloseQueuePair& a) {
    closed_queue_pairs.push_back(a);
    if (a.queue_pair == queue_pair) client.on_fabric_failed(attempt, now);
  }
  void carry_out(SessionBegun& a) { begun.push_back(a); }
  void carry_out(DoEndStep& a) {
    steps.push_back(a);
    if (a.step == EndStep::kQueuePair && a.queue_pair == queue_pair) {
      client.on_fabric_failed(attempt, now);
    }
    if (confirm_steps) server->confirm(a.session, a.step, now);
  }
  void carry_out(SessionEnded& a) { ended.push_back(a); }

  bool send_requests() {
    bool any = false;
    Bytes room(client.message_room());
    while (const size_t size = client.fill(room)) {
      any = true;
      const Bytes message(room.begin(), room.begin() + static_cast<ptrdiff_t>(size));
      sent_messages.push_back(message);
      auto admitted = server->on_message(queue_pair, message, now);
      if (!admitted) continue;
      if (hold_requests) {
        held.push_back({admitted->session, message});
      } else {
        respond(admitted->session, admitted->request);
      }
    }
    return any;
  }
};

}  // namespace verbena::session
