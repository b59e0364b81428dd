// SPDX-License-Identifier: Apache-2.0
// Any history of a server: connections, frames, queue pairs, messages, time, in the order that the
// input says. The first byte: 1 a shared secret, 2 no checks of identity. Then commands, a byte
// each (and what it needs, see take_command). Bounds hold, sessions that end do so in the right
// order, and at the end all of them can be ended.
#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "session/server.h"

namespace verbena::session {
namespace {

class History {
 public:
  History(FuzzInput& input, uint8_t mode)
      : input_(input), random_(7), server_(options_of(mode), random_) {}

  void run() {
    for (int i = 0; i < 400 && !input_.empty(); ++i) {
      take_command();
      settle();
      VERBENA_CHECK(server_.sessions() <= 4 + 8);  // some may be ending
      VERBENA_CHECK(server_.clients() <= 6);
    }
    server_.shut_down(now_);
    settle();
    while (!executing_.empty()) answer(true);
    settle();
    VERBENA_CHECK(server_.idle());
  }

 private:
  static ServerOptions options_of(uint8_t mode) {
    ServerOptions options;
    if ((mode & 1) != 0) options.secret = "secret";
    options.check_identity = (mode & 2) == 0;
    options.limits.window = 3;
    options.limits.result_span = 4;
    options.max_sessions = 4;
    options.max_unauthenticated = 3;
    options.max_unbound = 3;
    options.max_clients = 6;
    return options;
  }

  void take_command() {
    const uint64_t which = input_.u8();
    switch (which % 10) {
      case 0: server_.on_connection(++connections_, now_); break;
      case 1: server_.on_bytes(some(connections_), input_.bytes(input_.u8()), now_); break;
      case 2: say_hello(); break;
      case 3: server_.on_connection_closed(some(connections_), now_); break;
      case 4: server_.on_queue_pair(++queue_pairs_, now_); break;
      case 5: server_.on_queue_pair_failed(some(queue_pairs_), now_); break;
      case 6: bind(); break;
      case 7: message(); break;
      case 8: answer(input_.u8() % 2 == 0); break;
      default:
        now_ += Duration{input_.u8()} * 100 * kMillisecond;
        server_.on_time(now_);
        break;
    }
  }
  [[nodiscard]] uint64_t some(uint64_t count) {
    return 1 + input_.u8() % std::max<uint64_t>(count, 1);
  }

  void say_hello() {
    protocol::Hello hello;
    hello.client[0] = input_.u8() % 8;
    if ((hello.client[0] & 1) != 0) hello.features = protocol::kFeatureSecret;
    hello.resume_session =
        sessions_.empty() ? 0 : sessions_[input_.u8() % sessions_.size()].session;
    if (input_.u8() % 2 == 0) hello.resume_session = 0;
    server_.on_bytes(some(connections_), protocol::frame_of(hello), now_);
  }
  // As the WELCOME says, which the fuzzer sees.
  void bind() {
    if (welcomes_.empty()) return;
    const auto& [session, key] = welcomes_[input_.u8() % welcomes_.size()];
    std::vector<uint8_t> room(64);
    const auto size = protocol::encode(protocol::ConnectInit{.version = 1}, {0, session},
                                       protocol::Seal::with_key(key), room);
    room.resize(size.value());
    receive(some(queue_pairs_), room);
  }
  // A request that is genuine, or bytes.
  void message() {
    const uint64_t queue_pair = some(queue_pairs_);
    if (input_.u8() % 4 == 0 || sessions_.empty()) {
      return receive(queue_pair, input_.bytes(input_.u8()));
    }
    const Known& known = sessions_[input_.u8() % sessions_.size()];
    const uint64_t id = input_.number();
    const uint64_t oldest = input_.u8();
    protocol::Request request = protocol::StatRequest{.id = id, .oldest = oldest};
    const uint8_t kind = input_.u8() % 3;
    if (kind == 1) request = protocol::DeleteRequest{.id = id, .oldest = oldest};
    if (kind == 2) request = protocol::CreateRequest{.id = id, .oldest = oldest};
    std::vector<uint8_t> room(256);
    const auto size = protocol::encode(request, {known.fabric, known.session},
                                       protocol::Seal::with_key(known.key), room);
    room.resize(size.value());
    receive(known.queue_pair, room);
  }
  void receive(uint64_t queue_pair, std::span<const uint8_t> message) {
    auto& kept = messages_.emplace_back(message.begin(), message.end());
    const auto admitted = server_.on_message(queue_pair, kept, now_);
    if (admitted) executing_.push_back(*admitted);
  }

  // The oldest request; by a response, or abandoned if its session is ending.
  void answer(bool respond) {
    if (executing_.empty()) return;
    const Admitted admitted = executing_.front();
    executing_.pop_front();
    const bool ending = ending_.contains(admitted.session);
    if (!respond && ending) return server_.abandon(admitted.session, admitted.request, now_);
    std::vector<uint8_t> room(protocol::kMaxInlineBytes + protocol::kMaxIoOverhead);
    const size_t size = server_.respond(
        admitted.session, admitted.request,
        protocol::failure_of(admitted.request, protocol::Status::kBusy, "busy"), room, now_);
    VERBENA_CHECK((size == 0) == ending);
  }

  void settle() {
    for (auto actions = server_.take_actions(); !actions.empty();
         actions = server_.take_actions()) {
      for (const ServerAction& action : actions) {
        std::visit([this](const auto& a) { carry_out(a); }, action);
      }
    }
  }
  void carry_out(const SendFrame& a) {
    const auto frame = protocol::decode_frame(std::span(a.bytes).subspan(2));
    VERBENA_CHECK(frame.has_value());
    if (const auto* welcome = std::get_if<protocol::Welcome>(&*frame)) {
      welcomes_.emplace_back(welcome->session, welcome->key);
    }
  }
  void carry_out(const CloseConnection& /*a*/) {}
  void carry_out(const CloseQueuePair& /*a*/) {}
  void carry_out(const SessionBegun& a) { sessions_.push_back({a.session, 0, 0, a.queue_pair}); }
  void carry_out(const SendMessage& a) {
    const auto header = protocol::decode_header(a.bytes);
    for (Known& known : sessions_) {
      if (known.session == header->session) known.fabric = header->fabric, known.key = header->word;
    }
  }
  void carry_out(const DoEndStep& a) {
    const auto [it, first] = ending_.try_emplace(a.session, a.step);
    VERBENA_CHECK(first ? a.step == EndStep::kQueuePair
                        : static_cast<int>(a.step) == static_cast<int>(it->second) + 1);
    it->second = a.step;
    if (a.step == EndStep::kRanges) {
      VERBENA_CHECK(std::ranges::none_of(
          executing_, [&](const Admitted& x) { return x.session == a.session; }));
    }
    server_.confirm(a.session, a.step, now_);
  }
  void carry_out(const SessionEnded& a) {
    const auto it = ending_.find(a.session);
    VERBENA_CHECK(it == ending_.end() || it->second == EndStep::kRanges);
    std::erase_if(sessions_, [&](const Known& known) { return known.session == a.session; });
  }

  struct Known {
    SessionId session;
    uint64_t fabric;
    uint64_t key;
    QueuePairId queue_pair;
  };
  FuzzInput& input_;
  SeededRandom random_;
  Server server_;
  Time now_ = kSecond;
  uint64_t connections_ = 0;
  uint64_t queue_pairs_ = 0;
  std::vector<std::pair<SessionId, uint64_t>> welcomes_;
  std::vector<Known> sessions_;
  std::deque<Admitted> executing_;
  std::map<SessionId, EndStep> ending_;
  std::deque<std::vector<uint8_t>> messages_;  // which requests point into
};

}  // namespace
}  // namespace verbena::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::FuzzInput input(data, size);
  const uint8_t mode = input.u8();
  verbena::session::History(input, mode).run();
  return 0;
}
