// SPDX-License-Identifier: Apache-2.0
// Any history of a client whose server sends anything. The first byte: 1 a shared secret. Then
// commands, a byte each (see take_command). Each request is completed exactly once, and its memory
// not written afterwards; the client can always be closed.
#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "session/client.h"

namespace verbena::session {
namespace {

class ClientHistory {
 public:
  ClientHistory(FuzzInput& input, uint8_t mode)
      : input_(input), random_(7), client_(options_of(mode), random_) {}

  void run() {
    client_.start(now_);
    settle();
    for (int i = 0; i < 400 && !input_.empty(); ++i) {
      take_command();
      settle();
    }
    client_.close(now_);
    settle();
    now_ += 100 * kSecond;
    client_.on_time(now_);
    client_.on_fabric_ended(fabric_, now_);
    settle();
    VERBENA_CHECK(closed_ && client_.pending() == 0);
    VERBENA_CHECK(std::ranges::all_of(completions_, [](const auto& c) { return c.second == 1; }));
  }

 private:
  static ClientOptions options_of(uint8_t mode) {
    ClientOptions options;
    if ((mode & 1) != 0) options.secret = "secret";
    return options;
  }

  void take_command() {
    switch (input_.u8() % 12) {
      case 0:  client_.on_side_connected(side_, now_); break;
      case 1:  client_.on_side_bytes(side_, input_.bytes(input_.u8()), now_); break;
      case 2:  welcome(); break;
      case 3:  client_.on_side_closed(side_, now_); break;
      case 4:  client_.on_fabric_connected(fabric_, now_); break;
      case 5:  client_.on_fabric_failed(fabric_, now_); break;
      case 6:  client_.on_fabric_ended(fabric_, now_); break;
      case 7:  assign(); break;
      case 8:  request(); break;
      case 9:  respond(); break;
      case 10: client_.on_message(fabric_, input_.bytes(input_.u8()), now_); break;
      default:
        now_ += Duration{input_.u8()} * 100 * kMillisecond;
        client_.on_time(now_);
        break;
    }
  }

  void welcome() {
    protocol::Welcome welcome{.version = 1, .session = 1u + input_.u8(), .key = 9};
    welcome.server[0] = input_.u8() % 2;
    welcome.resumed = input_.u8() % 2 != 0;
    welcome.limits.window = 1 + input_.u8() % 4;
    welcome.limits.result_span = welcome.limits.window;
    welcome.limits.inline_bytes = 64;
    session_ = welcome.session;
    client_.on_side_bytes(side_, protocol::frame_of(welcome), now_);
  }
  void send(const auto& message) {
    std::vector<uint8_t> room(1024);
    const auto size = protocol::encode(message, {5, session_}, protocol::Seal::with_key(9), room);
    if (size) client_.on_message(fabric_, std::span(room).first(*size), now_);
  }
  void assign() { send(protocol::AssignId{.fabric = 5}); }

  void request() {
    const Time deadline = now_ + Duration{input_.u8()} * 100 * kMillisecond;
    const uint8_t kind = input_.u8() % 4;
    if (kind == 0) return note(client_.submit(protocol::DeleteRequest{}, deadline, now_));
    if (kind == 1) {
      return note(client_.submit(protocol::RangeUnregisterRequest{}, deadline, now_));
    }
    auto& memory = memory_.emplace_back(input_.u8());
    const auto object = protocol::ObjectRef::by(ObjectId{1, 1});
    const auto length = static_cast<uint32_t>(memory.size());
    const std::vector<Buffer> buffers{{memory.data(), length, 1, 0x1000}};
    note(kind == 2
             ? client_.read(object, 0, buffers, {}, deadline, now_)
             : client_.write(object, 0, buffers, {.repeatable = true, .crc = {}}, deadline, now_));
  }
  void note(RequestId id) { completions_.try_emplace(id, 0); }
  void respond() {
    const uint64_t id = input_.u8();
    const uint8_t kind = input_.u8() % 3;
    if (kind == 0) {
      protocol::DeleteResponse response;
      response.id = id;
      return send(response);
    }
    const auto payload = input_.bytes(kind == 1 ? input_.u8() : 0);
    send(
        protocol::IoResponse{.kind = kind == 1 ? protocol::IoKind::kRead : protocol::IoKind::kWrite,
                             .data_inline = kind == 1,
                             .id = id,
                             .object = {1, 1},
                             .length = payload.size(),
                             .crc = 0,
                             .payload = payload});
  }

  void settle() {
    std::vector<uint8_t> room(protocol::kMaxInlineBytes + protocol::kMaxIoOverhead);
    for (bool more = true; more;) {
      more = client_.fill(room) != 0;
      for (ClientAction& action : client_.take_actions()) {
        more = true;
        std::visit([this](auto& a) { carry_out(a); }, action);
      }
    }
  }
  void carry_out(ConnectSide& a) { side_ = a.attempt; }
  void carry_out(SendSide& /*a*/) {}
  void carry_out(CloseSide& /*a*/) {}
  void carry_out(ConnectFabric& a) { fabric_ = a.attempt; }
  void carry_out(EndFabric& a) {
    if (input_.u8() % 2 == 0) client_.on_fabric_ended(a.attempt, now_);
  }
  void carry_out(Fence& a) {
    if (input_.u8() % 2 == 0) client_.on_fenced(a.id, now_);
  }
  void carry_out(Completed& a) { ++completions_[a.completion.id]; }
  void carry_out(SessionReady& /*a*/) {}
  void carry_out(SessionLost& /*a*/) {}
  void carry_out(ClientRefused& /*a*/) {}
  void carry_out(ClientClosed& /*a*/) {
    VERBENA_CHECK(!closed_);
    closed_ = true;
  }

  FuzzInput& input_;
  SeededRandom random_;
  Client client_;
  Time now_ = kSecond;
  Attempt side_ = 0;
  Attempt fabric_ = 0;
  uint64_t session_ = 0;
  bool closed_ = false;
  std::map<RequestId, int> completions_;
  std::deque<std::vector<uint8_t>> memory_;
};

}  // namespace
}  // namespace verbena::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::FuzzInput input(data, size);
  const uint8_t mode = input.u8();
  verbena::session::ClientHistory(input, mode).run();
  return 0;
}
