// SPDX-License-Identifier: Apache-2.0
// Ends that are connected and say nothing, or stop in the middle of a file: they are given up, and
// others are served.
#include <functional>
#include <set>

#include "transfer/end_to_end.h"

namespace verbena::transfer {
namespace {

TEST(Liveness, SilenceEndsIt) {
  Liveness liveness({.idle_timeout = 10, .speak_every = 3}, 100);
  EXPECT_FALSE(liveness.silent(109));
  EXPECT_TRUE(liveness.silent(110));
  EXPECT_FALSE(liveness.must_speak(102));
  EXPECT_TRUE(liveness.must_speak(103));
  EXPECT_EQ(liveness.next(), 103);
  liveness.said(108);
  EXPECT_EQ(liveness.next(), 110);
  liveness.heard(110);
  EXPECT_FALSE(liveness.silent(119));
  EXPECT_EQ(liveness.next(), 111);
  EXPECT_FALSE(Liveness({.idle_timeout = 0}, 0).silent(kNever));
}

constexpr LivenessOptions kImpatient{.idle_timeout = 300 * kMillisecond,
                                     .speak_every = 20 * kMillisecond};
// Also on a busy machine, an end that is not silent is heard within this time.
constexpr LivenessOptions kBusyReceiver{.idle_timeout = 2 * kSecond,
                                        .speak_every = 20 * kMillisecond};
constexpr Duration kDeadline = 20 * kSecond;

// An end of any number of connections which says only what it is told to.
class Silent final : public fabric::Handler {
 public:
  explicit Silent(std::unique_ptr<fabric::Fabric> fabric) : fabric_(std::move(fabric)) {}

  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  // False: it has not come true.
  bool until(const std::function<bool()>& done) {
    const Time deadline = Loop::now() + kDeadline;
    while (!done() && Loop::now() < deadline) fabric_->poll(*this);
    return done();
  }
  void say(fabric::ConnectionId id, std::span<const uint8_t> message) {
    std::ranges::copy(message, fabric_->message_room(id).begin());
    fabric_->send(id, message.size());
    fabric_->flush();
  }

  std::vector<uint8_t> welcome;  // what it says when it accepts
  std::function<void(fabric::ConnectionId)> when_connected = [](auto) {};
  std::set<fabric::ConnectionId> connected;
  std::set<fabric::ConnectionId> lost;
  std::map<fabric::ConnectionId, std::vector<std::vector<uint8_t>>> messages;

 private:
  std::optional<std::vector<uint8_t>> on_request(fabric::ConnectionId /*id*/,
                                                 std::span<const uint8_t> /*data*/) override {
    return welcome;
  }
  void on_connected(fabric::ConnectionId id) override {
    connected.insert(id);
    when_connected(id);
  }
  void on_message(fabric::ConnectionId id, std::span<const uint8_t> message) override {
    messages[id].emplace_back(message.begin(), message.end());
  }
  void on_sendable(fabric::ConnectionId) override {}
  void on_done(fabric::ConnectionId, fabric::OperationId, bool) override {}
  void on_failed(fabric::ConnectionId id, std::string_view /*why*/) override {
    lost.insert(id);
    fabric_->end(id);
  }
  void on_ended(fabric::ConnectionId) override {}

  std::unique_ptr<fabric::Fabric> fabric_;
};

class Silence : public Transfers {
 protected:
  // Begins a file, as a sender of ours does, and says no more.
  void begin_file(Silent& silent, fabric::ConnectionId id) {
    const auto offer = decode_reply(silent.messages[id].at(0));
    ASSERT_TRUE(offer && std::holds_alternative<Offer>(*offer));
    FrameWriter frame(memory_);
    ASSERT_TRUE(frame.add(Open{.file = 1, .size = 10 << 20, .path = bytes_of("begun")}));
    const auto& [address, rkey, chunk, slots, most] = std::get<Offer>(*offer);
    const auto bytes = std::span(memory_).first(frame.finish());
    const auto key = silent.fabric().add_memory(memory_.data(), memory_.size(), false);
    ASSERT_TRUE(key) << key.error();
    silent.fabric().write_immediate(id, bytes, {address, rkey, 0}, 0, 0);
    ASSERT_TRUE(silent.until([&] { return silent.messages[id].size() > 1; }));
  }
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(4096 + kSlotExtraBytes);
};
INSTANTIATE_TEST_SUITE_P(Ip, Silence, ::testing::Values("127.0.0.1"));

// As many as there is room for, of both modes, one of them in the middle of a file.
TEST_P(Silence, SendersAreEndedAndOthersServed) {
  put("file", "content");
  ASSERT_NO_FATAL_FAILURE(receive({.liveness = kBusyReceiver}));
  Silent silent(open_fabric());
  std::vector<fabric::ConnectionId> ids;
  for (size_t i = 0; i < ReceiverOptions{}.max_senders; ++i) {
    const auto hello = i % 2 == 0 ? encode(Greeting{}) : std::vector<uint8_t>();
    ids.push_back(silent.fabric().connect({GetParam(), port_}, hello));
    ASSERT_TRUE(silent.until(
        [&] { return silent.connected.contains(ids[i]) || silent.lost.contains(ids[i]); }));
    if (i != 0) continue;
    ASSERT_TRUE(silent.until([&] { return !silent.messages[ids[0]].empty(); }));
    ASSERT_NO_FATAL_FAILURE(begin_file(silent, ids[0]));
  }
  EXPECT_TRUE(silent.until([&] { return silent.lost.size() == ids.size(); })) << silent.lost.size();
  EXPECT_EQ(silent.connected.size(), ids.size());
  // Those of our mode are told why.
  const auto last = decode_reply(silent.messages[ids[0]].back());
  ASSERT_TRUE(last);
  ASSERT_TRUE(std::holds_alternative<Bye>(*last));
  EXPECT_EQ(std::get<Bye>(*last).text, "the sender was silent for 2 s");
  const auto sent = send({.liveness = kBusyReceiver});
  EXPECT_TRUE(sent) << sent.error();
  EXPECT_EQ(content_of(root_ / "to/file"), "content");
}

TEST_P(Silence, ReceiversAreGivenUp) {
  put("file", "content");
  for (const bool ours : {false, true}) {
    for (const bool offers : {false, true}) {
      SCOPED_TRACE(testing::Message() << ours << offers);
      Silent silent(open_fabric());
      if (ours) silent.welcome = encode(Welcome{});
      const auto key = silent.fabric().add_memory(memory_.data(), memory_.size(), true);
      ASSERT_TRUE(key) << key.error();
      const auto address = reinterpret_cast<uint64_t>(memory_.data());
      silent.when_connected = [&](fabric::ConnectionId id) {
        if (!offers) return;
        const PlainMessage memory{PlainMessage::Kind::kMemory, address, key->remote};
        const Offer offer{address, key->remote, 4096, 1, 1 << 20};
        if (ours) {
          silent.say(id, encode(offer));
        } else {
          silent.say(id, encode(memory));
        }
      };
      const auto at = silent.fabric().listen({GetParam(), 0});
      ASSERT_TRUE(at) << at.error();
      port_ = at->port;
      std::atomic<bool> over = false;
      std::thread receiver([&] { silent.until([&] { return over.load(); }); });
      failed_.clear();
      const auto sent = send({.liveness = kImpatient});
      over = true;
      receiver.join();
      EXPECT_EQ(totals_.stored, 0u);
      const std::string why = ours ? (sent ? "" : sent.error()) : failed_["file"].second;
      EXPECT_TRUE(why.ends_with("the receiver was silent for 0.3 s")) << why;
    }
  }
}

// A connection that has nothing to do, and one that is slow, say that they are there.
TEST_P(Silence, WhoWaitsIsNotSilent) {
  put("file", random_text(1, 4 << 20));
  const LivenessOptions patient{.idle_timeout = 3 * kSecond, .speak_every = 20 * kMillisecond};
  ASSERT_NO_FATAL_FAILURE(receive({.liveness = patient}));
  const auto sent = send({.streams = 2, .bytes_per_second = 1 << 20, .liveness = patient});
  EXPECT_TRUE(sent) << sent.error();
  EXPECT_EQ(totals_.stored, 1u);
  expect_same();
}

}  // namespace
}  // namespace verbena::transfer
