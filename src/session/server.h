// SPDX-License-Identifier: Apache-2.0
// The server's end of all sessions, with no I/O: bytes, time and randomness come in, actions go
// out. Whoever owns it has the TCP connections, the queue pairs and the store, and does four
// things:
//
//   - it passes on what happens (on_...), and calls on_time() when next_time() has come;
//   - after each call it carries out take_actions(), in order;
//   - it executes what on_message() returns, and calls respond() or abandon() for each, once;
//   - it answers each EndStep by confirm(), when that step is done.
//
//   connection:  hello -> [proof] -> [waiting for the client's last session to end] -> session
//   session:     unbound -> active -> ending: queue pair, drain, keys, writes, ranges -> gone
//
// A client instance has at most one session. What is remembered of its requests (ResultMemory)
// outlives the session for a while. Owned by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/counter_set.h"
#include "base/random.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "protocol/messages.h"
#include "protocol/side_channel.h"
#include "session/result_memory.h"
#include "session/secret.h"

namespace verbena::session {

// Chosen by the owner; none is used twice.
using ConnectionId = uint64_t;
using QueuePairId = uint64_t;
using SessionId = uint64_t;  // random; also the client id of registered ranges

// A fabric by which clients can come.
struct OfferedFabric {
  std::string name{};  // "verbs"
  uint16_t port = 0;
};

struct ServerOptions {
  Secret secret{};             // empty: none
  bool check_identity = true;  // off: ids, keys and tags of messages are not looked at
  protocol::Limits limits{};
  std::string fabric_host{};  // numeric; empty: that of the side channel
  uint16_t fabric_port = 0;
  std::vector<OfferedFabric> fabrics{};  // none: only the one at fabric_port, whatever it is
  size_t max_sessions = 1024;
  size_t max_unauthenticated = 64;  // connections; one more closes the oldest
  size_t max_unbound = 64;          // queue pairs, and sessions without one; likewise
  size_t max_clients = 4096;        // instances remembered; the one away for longest is forgotten
  Duration handshake_timeout = 5 * kSecond;
  Duration bind_timeout = 10 * kSecond;
  Duration client_memory = 120 * kSecond;  // how long a client without a session is remembered
};

// Steps of the end of a session, after which its messages are refused.
enum class EndStep : uint8_t {
  kQueuePair,  // put it into the error state
  kDrain,      // poll all of its completions
  kKeys,       // invalidate the memory keys made for it
  kWrites,     // abandon() requests whose data was on its way; respond() to those executing
  kRanges,     // release its ranges
};

// The owner bounds what waits to be sent to a client that does not read, and closes the connection.
struct SendFrame {
  ConnectionId connection;
  std::vector<uint8_t> bytes;
};
struct CloseConnection {  // when all frames are sent; nothing of it is passed on any more
  ConnectionId connection;
};
struct SendMessage {
  QueuePairId queue_pair;
  std::vector<uint8_t> bytes;
};
struct CloseQueuePair {  // one that has no session
  QueuePairId queue_pair;
};
struct SessionBegun {
  SessionId session;
  QueuePairId queue_pair;
};
struct DoEndStep {
  SessionId session;
  QueuePairId queue_pair;
  EndStep step;
};
struct SessionEnded {
  SessionId session;
  protocol::EndReason reason;
};
using ServerAction = std::variant<SendFrame, CloseConnection, SendMessage, CloseQueuePair,
                                  SessionBegun, DoEndStep, SessionEnded>;

// A request to be executed. Views point into the message.
struct Admitted {
  SessionId session;
  protocol::Request request;
};

enum class ServerCounter : uint8_t {
  kConnections,
  kEvictedConnections,
  kEvictedQueuePairs,
  kHandshakesFailed,
  kSessions,
  kResumed,
  kForgottenClients,
  kRequests,
  kAnsweredFromMemory,
  kUnknownTypes,
  kBadMessages,
  kCount,
};

class Server {
 public:
  Server(ServerOptions options, RandomSource& random);
  ~Server();

  // --- the side channel
  void on_connection(ConnectionId connection, Time now);
  void on_bytes(ConnectionId connection, std::span<const uint8_t> bytes, Time now);
  void on_connection_closed(ConnectionId connection, Time now);

  // --- the fabric
  void on_queue_pair(QueuePairId queue_pair, Time now);  // connected
  [[nodiscard]] std::optional<Admitted> on_message(QueuePairId queue_pair,
                                                   std::span<const uint8_t> message, Time now);
  void on_queue_pair_failed(QueuePairId queue_pair, Time now);

  // --- requests: one of these for each Admitted, in any order
  // Encodes the response into `room`, and remembers it where the request changes the store. The
  // length to be sent; 0: the session is ending.
  [[nodiscard]] size_t respond(SessionId session, const protocol::Request& request,
                               const protocol::Response& response, std::span<uint8_t> room,
                               Time now);
  // Without a response, and without an effect: only while the session is ending.
  void abandon(SessionId session, const protocol::Request& request, Time now);

  // --- the end
  void end(SessionId session, protocol::EndReason reason, Time now);
  void confirm(SessionId session, EndStep step, Time now);
  // Ends all sessions and accepts no more.
  void shut_down(Time now);
  [[nodiscard]] bool idle() const { return peers_.empty() && unbound_.empty(); }

  void on_time(Time now);
  [[nodiscard]] Time next_time() const;
  [[nodiscard]] std::vector<ServerAction> take_actions() { return std::move(actions_); }

  [[nodiscard]] const protocol::InstanceId& incarnation() const { return incarnation_; }
  [[nodiscard]] uint64_t counter(ServerCounter counter) const { return counters_[counter]; }
  [[nodiscard]] uint64_t faults(protocol::Fault fault) const {
    return faults_[static_cast<size_t>(fault)];
  }
  [[nodiscard]] size_t sessions() const { return by_session_.size(); }
  [[nodiscard]] size_t clients() const { return clients_.size(); }

 private:
  enum class State : uint8_t { kHello, kProof, kWaiting, kUnbound, kActive, kEnding };
  struct Token {
    SessionId session = 0;
    uint64_t key = 0;
    bool remembered = false;  // its requests are: those of another run of the server are not
  };
  static constexpr size_t kMaxTokens = 16;
  // What outlives a session.
  struct ClientRecord {
    ResultMemory memory;
    SessionId session = 0;     // 0: none
    ConnectionId waiting = 0;  // for the end of `session`; 0: none
    // What proves a resumption: the id (and key) of a session. The first is one that the client
    // is known to have heard of, the others are those made since, whose WELCOME may be lost.
    std::vector<Token> tokens;
    Time forget_at = kNever;                            // without a session
    std::list<protocol::InstanceId>::iterator place{};  // in away_, without a session
  };
  // A connection, and its session once it has one.
  struct Peer {
    ConnectionId connection = 0;
    bool open = true;  // the connection
    State state = State::kHello;
    protocol::FrameReader reader;
    Transcript transcript;
    protocol::Hello hello;
    ClientRecord* record = nullptr;  // of the session's client
    protocol::Nonce nonce{};
    SessionId session = 0;
    protocol::Seal seal = protocol::Seal::with_key(0);
    uint64_t fabric = 0;
    QueuePairId queue_pair = 0;
    uint64_t last_id = 0;
    uint32_t in_flight = 0;
    EndStep step = EndStep::kQueuePair;
    bool step_confirmed = false;
    bool said_goodbye = false;  // the client, by a frame
    protocol::EndReason reason = protocol::EndReason::kDone;
    TimerHook timer;
    std::list<ConnectionId>::iterator place;  // in unauthenticated_ or unbound_sessions_
  };
  using Clients = std::map<protocol::InstanceId, ClientRecord>;

  // server_handshake.cc
  void on_frame(Peer& peer, std::span<const uint8_t> frame, Time now);
  void on_hello(Peer& peer, const protocol::Hello& hello, Time now);
  void on_proof(Peer& peer, const protocol::Proof& proof, Time now);
  void on_authenticated(Peer& peer, Time now);
  [[nodiscard]] bool take_token(const protocol::Hello& hello, ClientRecord& record) const;
  [[nodiscard]] bool make_room_for_client();
  void welcome(Peer& peer, Time now);
  [[nodiscard]] std::optional<uint16_t> port_for(const protocol::Hello& hello) const;
  [[nodiscard]] protocol::Welcome make_welcome(Peer& peer, bool resumed);
  void refuse(Peer& peer, protocol::EndReason reason, std::string_view detail);
  void send(const Peer& peer, const protocol::SideMessage& message);
  void remove_connection(Peer& peer);
  [[nodiscard]] uint64_t draw_nonzero();

  // server_requests.cc
  void on_connect_init(QueuePairId queue_pair, std::span<const uint8_t> message, Time now);
  [[nodiscard]] std::optional<Admitted> on_request(Peer& peer, std::span<const uint8_t> message,
                                                   Time now);
  [[nodiscard]] std::optional<Admitted> admit(Peer& peer, const protocol::Request& request,
                                              Time now);
  [[nodiscard]] const char* beyond_limits(const protocol::Request& request) const;
  void on_bad_message(Peer& peer, protocol::Fault fault, Time now);
  void answer(const Peer& peer, const protocol::Response& response);
  [[nodiscard]] protocol::Address address_of(const Peer& peer) const;
  void drop_unbound(QueuePairId queue_pair);

  // server_end.cc
  void end_peer(Peer& peer, protocol::EndReason reason, std::string_view detail, Time now);
  void next_step(Peer& peer, Time now);
  void try_leave_writes(Peer& peer, Time now);
  void gone(Peer& peer, Time now);
  void forget_oldest_client();
  void stay(ClientRecord& record);
  void leave(const protocol::InstanceId& client, ClientRecord& record, Time now);

  [[nodiscard]] Peer* find_session(SessionId session);

  ServerOptions options_;
  RandomSource& random_;
  protocol::InstanceId incarnation_{};
  bool shutting_down_ = false;
  std::unordered_map<ConnectionId, std::unique_ptr<Peer>> peers_;
  std::unordered_map<SessionId, Peer*> by_session_;
  std::unordered_map<QueuePairId, Peer*> by_queue_pair_;
  // The oldest first.
  std::list<ConnectionId> unauthenticated_;
  std::list<ConnectionId> unbound_sessions_;
  struct Unbound {
    QueuePairId queue_pair;
    Time deadline;
  };
  std::deque<Unbound> unbound_;  // the oldest first
  Clients clients_;
  std::list<protocol::InstanceId> away_;  // clients without a session, the first that left first
  TimerHeap<Peer> timers_;
  std::vector<ServerAction> actions_;
  CounterSet<ServerCounter> counters_;
  std::array<uint64_t, protocol::kFaults> faults_{};
};

}  // namespace verbena::session
