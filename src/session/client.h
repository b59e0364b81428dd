// SPDX-License-Identifier: Apache-2.0
// The client's end of its session, with no I/O: bytes, time and randomness come in, actions go out.
// Whoever owns it has one TCP connection and one queue pair at a time, and does four things:
//
//   - it passes on what happens (on_...), and calls on_time() when next_time() has come;
//   - after each call it carries out take_actions(), in order;
//   - it sends what fill() gives, as long as it gives something and there is room to send;
//   - it answers EndFabric by on_fabric_ended() and Fence by on_fenced(), when that is done.
//
//   idle -> side channel -> HELLO [PROOF] -> fabric -> CONNECT_INIT -> active
//              ^                                                         |  any failure
//              +---------------- back-off <---- queue pair ended <-------+
//
// Requests may be made in any state. Each ends with one Completed, at its deadline at the latest
// (and the confirmation that the server can no longer reach its memory). What becomes of requests
// in doubt when the connection was lost: docs/protocol.md, "What is promised". Owned by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "protocol/messages.h"
#include "protocol/side_channel.h"
#include "session/secret.h"

namespace verbena::session {

using RequestId = uint64_t;
// Counts connections. What is passed on names the attempt it belongs to; of older ones nothing
// counts any more.
using Attempt = uint64_t;

struct ClientOptions {
  Secret secret{};                              // empty: none
  Duration connect_timeout = 5 * kSecond;       // from the TCP connection to the bound queue pair
  Duration first_back_off = 20 * kMillisecond;  // doubled with each failure, and a random part
  Duration max_back_off = 2 * kSecond;
  // Messages have room for so much data; a server that allows more is not followed.
  uint32_t max_inline_bytes = protocol::kMaxInlineBytes;
  uint32_t fabric = 0;  // protocol::number_of_fabric(); 0: the server's first
};

// A piece of memory of a read or write. It belongs to the request until that is completed.
struct Buffer {
  uint8_t* memory = nullptr;
  uint32_t length = 0;
  uint32_t rkey = 0;
  uint64_t address = 0;  // of `memory`, as the rkey has it
};

struct IoOptions {
  bool repeatable = false;  // a write that may be executed again after the server was restarted
  std::optional<uint32_t>
      crc{};                   // of a write's data, if the caller has it; otherwise it is computed
  bool caller_checks = false;  // the data of a read, by Completion::crc
};

enum class Outcome : uint8_t {
  kDone,       // answered: see `status`
  kUnknown,    // it took effect once, or not at all, or does so until the session has ended
  kTimedOut,   // no effect: it was not sent, or changes nothing
  kCancelled,  // likewise, by cancel() or close()
  kRefused,    // likewise: the server does not accept this client: see `detail`
  kCorrupted,  // the response or the data that arrived is not what the server sent
  kInvalid,    // cannot be encoded, or exceeds the session's limits
};
[[nodiscard]] const char* name_of(Outcome outcome);

struct Completion {
  RequestId id = 0;
  Outcome outcome = Outcome::kDone;
  protocol::Status status = protocol::Status::kOk;
  std::string detail{};
  ObjectId object{};               // of a read or write
  uint64_t length = 0;             // bytes read or written
  uint32_t crc = 0;                // of these
  std::vector<uint8_t> message{};  // the response to any other request, for as()

  // nullopt: not answered, or REFUSED. Views point into `message`.
  template <typename R>
  [[nodiscard]] std::optional<R> as() const {
    auto decoded = protocol::decode<R>(message, kSeal);
    if (!decoded) return std::nullopt;
    return std::move(*decoded);
  }
  static const protocol::Seal kSeal;
};

struct ConnectSide {
  Attempt attempt;
};
struct SendSide {
  Attempt attempt;
  std::vector<uint8_t> bytes;
};
struct CloseSide {  // when all is sent
  Attempt attempt;
};
struct ConnectFabric {
  Attempt attempt;
  std::string host;  // empty: that of the side channel
  uint16_t port;
};
// Puts the queue pair into the error state, or gives up connecting; nothing is received by it any
// more. Answered by on_fabric_ended().
struct EndFabric {
  Attempt attempt;
};
// Makes sure that the server can no longer reach the memory of the request: by invalidating its
// key, or by ending the queue pair (and on_fabric_failed()). Answered by on_fenced().
struct Fence {
  RequestId id;
};
struct Completed {
  Completion completion;
};
// Registered ranges and the default object are gone with the last session, if there was one.
struct SessionReady {
  protocol::Limits limits;
  protocol::InstanceId server;
  bool resumed;
};
struct SessionLost {
  std::string why;
};
// The server does not accept this client: no more attempts.
struct ClientRefused {
  protocol::EndReason reason;
  std::string detail;
};
struct ClientClosed {};
using ClientAction =
    std::variant<ConnectSide, SendSide, CloseSide, ConnectFabric, EndFabric, Fence, Completed,
                 SessionReady, SessionLost, ClientRefused, ClientClosed>;

class Client {
 public:
  Client(ClientOptions options, RandomSource& random);

  void start(Time now);
  // Ends all requests, then the session. ClientClosed is the last action.
  void close(Time now);

  // --- requests; the id is that of the Completed, which may be among the next actions
  [[nodiscard]] RequestId read(const protocol::ObjectRef& object, uint64_t offset,
                               std::vector<Buffer> buffers, const IoOptions& options, Time deadline,
                               Time now);
  [[nodiscard]] RequestId write(const protocol::ObjectRef& object, uint64_t offset,
                                std::vector<Buffer> buffers, const IoOptions& options,
                                Time deadline, Time now);
  // Any other; its id and `oldest` are filled in.
  [[nodiscard]] RequestId submit(protocol::Request request, Time deadline, Time now);
  // As if its deadline had come.
  void cancel(RequestId id, Time now);

  // --- the side channel
  void on_side_connected(Attempt attempt, Time now);
  void on_side_bytes(Attempt attempt, std::span<const uint8_t> bytes, Time now);
  void on_side_closed(Attempt attempt, Time now);  // or could not be connected

  // --- the fabric
  void on_fabric_connected(Attempt attempt, Time now);
  void on_message(Attempt attempt, std::span<const uint8_t> message, Time now);
  void on_fabric_failed(Attempt attempt, Time now);  // or could not be connected
  void on_fabric_ended(Attempt attempt, Time now);
  void on_fenced(RequestId id, Time now);
  // The next message, encoded into `room` (message_room() bytes); 0: there is none to send now.
  [[nodiscard]] size_t fill(std::span<uint8_t> room);
  [[nodiscard]] size_t message_room() const;

  void on_time(Time now);
  [[nodiscard]] Time next_time() const;
  [[nodiscard]] std::vector<ClientAction> take_actions() { return std::move(actions_); }

  [[nodiscard]] bool active() const { return state_ == State::kActive; }
  [[nodiscard]] size_t pending() const { return pending_.size(); }
  [[nodiscard]] uint64_t faults() const { return faults_; }

 private:
  enum class State : uint8_t {
    kIdle,
    kConnecting,  // the side channel
    kHello,       // sent; CHALLENGE or WELCOME comes next
    kProof,       // sent; WELCOME comes next
    kFabric,      // connecting
    kBinding,     // CONNECT_INIT is sent or about to be
    kActive,
    kEndingFabric,  // waits for on_fabric_ended()
    kBackOff,
    kRefused,
    kClosed,
  };
  struct Pending {
    RequestId id = 0;
    protocol::MessageType type{};
    Time deadline = kNever;
    protocol::Effect effect = protocol::Effect::kNone;
    bool sent = false;         // in this session
    bool ever_sent = false;    // in any
    bool exposed = false;      // its memory's keys went out over the present queue pair
    bool inline_data = false;  // its data was, or shall be, in the message
    bool caller_checks = false;
    bool fencing = false;  // to be completed as `expired` says once it is fenced
    Outcome expired = Outcome::kTimedOut;
    // A read or write: the request without its payload, its name, its memory.
    std::optional<protocol::IoRequest> io{};
    std::string name{};
    std::vector<Buffer> buffers{};
    // Any other: the encoded message.
    std::vector<uint8_t> message{};
  };
  using PendingMap = std::map<RequestId, Pending>;

  // client_connection.cc
  void connect(Time now);
  void lose(std::string why, Time now);
  void after_fabric_ended(Time now);
  void refused(protocol::EndReason reason, std::string_view detail, Time now);
  [[nodiscard]] bool in_handshake() const {
    return state_ == State::kHello || state_ == State::kProof;
  }
  void on_bad_frame(protocol::Fault fault, Time now);
  void on_frame(std::span<const uint8_t> frame, Time now);
  void on_challenge(const protocol::Challenge& challenge, std::span<const uint8_t> frame, Time now);
  void on_welcome(const protocol::Welcome& welcome, Time now);
  void become_another();
  void on_goodbye(const protocol::Goodbye& goodbye, Time now);
  void send_side(const protocol::SideMessage& message);
  void close_side();
  [[nodiscard]] bool side_open() const;

  // client_requests.cc
  Pending& add(protocol::MessageType type, protocol::Effect effect, Time deadline);
  RequestId add_io(protocol::IoRequest io, std::vector<Buffer> buffers, Time deadline);
  void end_if_over(RequestId id);
  void give_up(PendingMap::iterator it, Outcome outcome);
  void complete(PendingMap::iterator it, Completion completion);
  void expire(Time now);
  void settle_doubts(bool resumed);
  void unexpose_all();
  [[nodiscard]] RequestId oldest() const;
  [[nodiscard]] bool may_send(const Pending& pending) const;
  [[nodiscard]] protocol::Decoded<size_t> encode_request(Pending& pending, std::span<uint8_t> room);
  [[nodiscard]] protocol::Decoded<size_t> encode_io(Pending& pending, std::span<uint8_t> room);
  void on_response(const protocol::Response& response, std::span<const uint8_t> message, Time now);
  [[nodiscard]] static Completion completion_of(const Pending& pending,
                                                const protocol::Response& response,
                                                std::span<const uint8_t> message);
  [[nodiscard]] static const char* wrong_with(const Pending& pending,
                                              const protocol::IoResponse& io);

  ClientOptions options_;
  RandomSource& random_;
  protocol::InstanceId instance_{};
  std::vector<ClientAction> actions_;

  // The connection.
  State state_ = State::kIdle;
  Attempt attempt_ = 0;
  bool closing_ = false;
  bool side_closed_ = true;
  bool fabric_open_ = false;  // ConnectFabric was asked for, and not yet ended
  protocol::FrameReader reader_;
  Transcript transcript_;
  uint32_t failures_ = 0;
  Time connect_deadline_ = kNever;
  Time retry_at_ = kNever;
  Time ping_at_ = kNever;
  Time silent_at_ = kNever;
  uint64_t faults_ = 0;

  // The session, since WELCOME.
  protocol::Seal seal_ = protocol::Seal::with_key(0);
  protocol::Address address_{};
  uint64_t key_ = 0;
  protocol::InstanceId server_{};
  protocol::Limits limits_{};
  bool resumed_ = false;
  bool init_sent_ = false;

  // Requests.
  RequestId next_id_ = 1;
  PendingMap pending_;
  RequestId last_sent_ = 0;        // in this session
  uint32_t in_flight_ = 0;         // sent in this session and not answered
  std::set<RequestId> abandoned_;  // of these, those that nobody waits for
  std::set<std::pair<Time, RequestId>> deadlines_;
};

}  // namespace verbena::session
