// SPDX-License-Identifier: Apache-2.0
// What becomes of requests when connections break, the server restarts, or time runs out; and the
// order in which sessions end.
#include <gtest/gtest.h>

#include "session/pair_fixture.h"

namespace verbena::session {
namespace {

using protocol::EndReason;
using protocol::ObjectRef;

constexpr Time kFarAway = 1000 * kSecond;

class Loss : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pair_.connect()); }
  RequestId submit(protocol::Request request, Time deadline = kFarAway) {
    const RequestId id = pair_.client.submit(std::move(request), deadline, pair_.now);
    pair_.pump();
    return id;
  }
  RequestId write(size_t length, bool repeatable, Time deadline = kFarAway) {
    memory_.resize(length);
    const RequestId id =
        pair_.client.write(ObjectRef::by(ObjectId{1, 1}), 0,
                           {{memory_.data(), static_cast<uint32_t>(length), 5, 0x1000}},
                           {.repeatable = repeatable, .crc = {}}, deadline, pair_.now);
    pair_.pump();
    return id;
  }
  // A write's answer, as it should be.
  void answer_well() {
    pair_.execute = [](const protocol::Request& request) {
      auto response = protocol::failure_of(request, protocol::Status::kOk, {});
      if (auto* io = std::get_if<protocol::IoResponse>(&response)) {
        const auto& asked = std::get<protocol::IoRequest>(request);
        io->length = asked.length;
        io->crc = asked.crc;
      }
      return response;
    };
  }
  void abandon_held() {
    for (const auto& held : pair_.held) {
      const auto request =
          protocol::decode_request(held.message, protocol::Seal::with_key(0).without_checks());
      pair_.server->abandon(held.session, *request, pair_.now);
    }
    pair_.held.clear();
  }
  void reconnect() {
    pair_.cut();
    pair_.advance(kSecond);
    ASSERT_TRUE(pair_.client.active());
  }
  void restart() {
    pair_.restart_server();
    pair_.client.on_side_closed(pair_.attempt, pair_.now);
    pair_.advance(5 * kSecond);
    ASSERT_TRUE(pair_.client.active());
  }

  Pair pair_;
  std::vector<uint8_t> memory_;
};

// The response was lost with the connection: the retry is answered from memory.
TEST_F(Loss, ARetriedCreateIsRecognised) {
  pair_.lose_responses = true;
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  pair_.lose_responses = false;
  EXPECT_EQ(pair_.completion(id), nullptr);
  reconnect();
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 1);
  EXPECT_EQ(pair_.server->counter(ServerCounter::kAnsweredFromMemory), 1u);
  ASSERT_EQ(pair_.ready.size(), 2u);
  EXPECT_TRUE(pair_.ready[1].resumed);
}

TEST_F(Loss, ARequestThatNeverArrivedIsExecuted) {
  pair_.client.on_side_closed(pair_.attempt, pair_.now);
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  pair_.advance(kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 1);
}

// The new session waits for it, and has its result.
TEST_F(Loss, ARequestThatIsExecutingIsWaitedFor) {
  pair_.hold_requests = true;
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  pair_.cut();
  pair_.advance(3 * kSecond);
  EXPECT_FALSE(pair_.client.active());
  pair_.hold_requests = false;
  pair_.answer_held(0);
  pair_.advance(10 * kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 1);
}

TEST_F(Loss, AnAbandonedWriteIsExecutedAgain) {
  answer_well();
  pair_.hold_requests = true;
  const RequestId id = write(100'000, false);
  pair_.cut();
  abandon_held();
  pair_.hold_requests = false;
  pair_.advance(10 * kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 1);
}

TEST_F(Loss, AfterARestartTheOutcomeIsUnknown) {
  pair_.lose_responses = true;
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  const RequestId stat = submit(protocol::StatRequest{});
  const RequestId write_id = write(10, false);
  pair_.lose_responses = false;
  restart();
  EXPECT_EQ(pair_.outcome(id), Outcome::kUnknown);
  EXPECT_EQ(pair_.outcome(write_id), Outcome::kUnknown);
  EXPECT_EQ(pair_.outcome(stat), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 1);
  ASSERT_EQ(pair_.ready.size(), 2u);
  EXPECT_FALSE(pair_.ready[1].resumed);
}

TEST_F(Loss, AfterARestartARepeatableWriteIsRepeated) {
  answer_well();
  pair_.lose_responses = true;
  const RequestId id = write(10, true);
  pair_.lose_responses = false;
  restart();
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  EXPECT_EQ(pair_.executed[id], 2);
}

// What was not sent is in no doubt.
TEST_F(Loss, AfterARestartUnsentRequestsAreSent) {
  pair_.server_reachable = false;
  pair_.cut();
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  pair_.server_reachable = true;
  restart();
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
}

// A server that says it resumed, with another incarnation, is not believed.
TEST_F(Loss, AResumptionByAnotherIncarnationIsNone) {
  pair_.lose_responses = true;
  const RequestId id = submit(protocol::CreateRequest{.name = "a"});
  pair_.lose_responses = false;
  pair_.tamper_to_client = [](Pair::Bytes& bytes) {
    auto frame = protocol::decode_frame(std::span(bytes).subspan(2));
    if (auto* welcome = std::get_if<protocol::Welcome>(&*frame)) {
      welcome->resumed = true;
      bytes = protocol::frame_of(*welcome);
    }
  };
  restart();
  EXPECT_EQ(pair_.outcome(id), Outcome::kUnknown);
}

TEST_F(Loss, ARangeEndsWithItsSession) {
  pair_.lose_responses = true;
  const RequestId add = submit(protocol::RangeRegisterRequest{});
  const RequestId remove = submit(protocol::RangeUnregisterRequest{.range = 5});
  pair_.lose_responses = false;
  reconnect();
  EXPECT_EQ(pair_.outcome(add), Outcome::kDone);
  EXPECT_EQ(pair_.executed[add], 2);  // the first went with the session
  EXPECT_EQ(pair_.outcome(remove), Outcome::kDone);
  EXPECT_EQ(pair_.executed[remove], 1);
  EXPECT_TRUE(pair_.completion(remove)->as<protocol::RangeUnregisterResponse>());
}

// --- time

TEST_F(Loss, ATimeoutOfSomethingThatChangesNothing) {
  pair_.hold_requests = true;
  const RequestId id = submit(protocol::StatRequest{}, pair_.now + kSecond);
  pair_.advance(2 * kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kTimedOut);
  EXPECT_TRUE(pair_.fences.empty());
  pair_.answer_held(0);  // too late, and nothing happens
  EXPECT_TRUE(pair_.client.active());
}

TEST_F(Loss, ATimeoutOfSomethingThatMayHaveHappened) {
  pair_.hold_requests = true;
  const RequestId id = submit(protocol::DeleteRequest{}, pair_.now + kSecond);
  pair_.advance(2 * kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kUnknown);
}

// Its memory is given back when the server cannot reach it any more.
TEST_F(Loss, ATimeoutWaitsForTheFence) {
  pair_.hold_requests = true;
  pair_.confirm_fences = false;
  const RequestId id = write(100'000, false, pair_.now + kSecond);
  pair_.advance(2 * kSecond);
  EXPECT_EQ(pair_.completion(id), nullptr);
  ASSERT_EQ(pair_.fences, std::vector<RequestId>{id});
  pair_.client.on_fenced(id, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(id), Outcome::kUnknown);
}

TEST_F(Loss, AnAnswerDuringTheFenceIsAnAnswer) {
  answer_well();
  pair_.hold_requests = true;
  pair_.confirm_fences = false;
  const RequestId id = write(100'000, false, pair_.now + kSecond);
  pair_.advance(2 * kSecond);
  pair_.answer_held(0);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(id), Outcome::kDone);
  pair_.client.on_fenced(id, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.client.pending(), 0u);
}

TEST_F(Loss, ATimeoutWaitsForTheEndOfTheQueuePair) {
  pair_.hold_requests = true;
  pair_.confirm_fabric_end = false;
  const RequestId id = write(100'000, false, pair_.now + kSecond);
  pair_.client.on_side_closed(pair_.attempt, pair_.now);
  pair_.advance(5 * kSecond);
  EXPECT_EQ(pair_.completion(id), nullptr);
  EXPECT_TRUE(pair_.fences.empty());
  EXPECT_EQ(pair_.connection, 1u);  // nor does it connect again
  pair_.client.on_fabric_ended(pair_.attempt, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.outcome(id), Outcome::kUnknown);
  abandon_held();
  pair_.confirm_fabric_end = true;
  pair_.advance(5 * kSecond);
  EXPECT_TRUE(pair_.client.active());
}

// Without being asked for.
TEST_F(Loss, AQueuePairThatEndsIsALoss) {
  pair_.hold_requests = true;
  pair_.client.on_fabric_ended(pair_.attempt, pair_.now);
  const RequestId id = write(100'000, false);
  EXPECT_FALSE(pair_.client.active());
  pair_.client.close(pair_.now);
  pair_.pump();
  EXPECT_TRUE(pair_.closed);
  EXPECT_EQ(pair_.outcome(id), Outcome::kCancelled);
}

TEST_F(Loss, RequestsTimeOutWithoutAServer) {
  pair_.server_reachable = false;
  pair_.cut();
  const RequestId id = submit(protocol::StatRequest{}, pair_.now + 5 * kSecond);
  const RequestId unsent = submit(protocol::DeleteRequest{}, pair_.now + 5 * kSecond);
  pair_.advance(6 * kSecond);
  EXPECT_EQ(pair_.outcome(id), Outcome::kTimedOut);
  EXPECT_EQ(pair_.outcome(unsent), Outcome::kTimedOut);
}

TEST_F(Loss, PingsKeepASessionAlive) {
  pair_.advance(100 * kSecond);
  EXPECT_TRUE(pair_.client.active());
  EXPECT_TRUE(pair_.ended.empty());
}

TEST_F(Loss, ASilentClientIsEnded) {
  pair_.tamper_to_server = [](Pair::Bytes& bytes) { bytes.clear(); };
  pair_.tamper_to_client = [](Pair::Bytes& bytes) { bytes.clear(); };
  pair_.advance(11 * kSecond);
  ASSERT_FALSE(pair_.ended.empty());
  EXPECT_EQ(pair_.lost.empty(), false);
}

TEST_F(Loss, AClientThatHasHeardNothingGoesAway) {
  pair_.tamper_to_client = [](Pair::Bytes& bytes) { bytes.clear(); };
  pair_.advance(11 * kSecond);
  EXPECT_EQ(pair_.lost, "the server is silent");
}

// --- the end

TEST_F(Loss, TheStepsOfTheEndInTheirOrder) {
  pair_.hold_requests = true;
  pair_.confirm_steps = false;
  (void)submit(protocol::DeleteRequest{});
  const SessionId session = pair_.begun[0].session;
  pair_.server->on_connection_closed(pair_.connection, pair_.now);
  for (const EndStep step : {EndStep::kQueuePair, EndStep::kDrain, EndStep::kKeys}) {
    pair_.pump();
    ASSERT_EQ(pair_.steps.back().step, step);
    EXPECT_EQ(pair_.steps.back().session, session);
    pair_.server->confirm(session, step, pair_.now);
  }
  pair_.pump();
  ASSERT_EQ(pair_.steps.back().step, EndStep::kWrites);
  pair_.server->confirm(session, EndStep::kWrites, pair_.now);
  pair_.pump();
  EXPECT_EQ(pair_.steps.size(), 4u);  // one is still executing
  pair_.answer_held(0);
  pair_.pump();
  ASSERT_EQ(pair_.steps.back().step, EndStep::kRanges);
  EXPECT_TRUE(pair_.ended.empty());
  pair_.server->confirm(session, EndStep::kRanges, pair_.now);
  pair_.pump();
  ASSERT_EQ(pair_.ended.size(), 1u);
}

TEST_F(Loss, MessagesOfAnEndingSessionAreRefused) {
  pair_.confirm_steps = false;
  (void)submit(protocol::StatRequest{});
  Pair::Bytes message = pair_.sent_messages.back();
  pair_.server->on_connection_closed(pair_.connection, pair_.now);
  const uint64_t requests = pair_.server->counter(ServerCounter::kRequests);
  EXPECT_FALSE(pair_.server->on_message(pair_.queue_pair, message, pair_.now));
  EXPECT_EQ(pair_.server->counter(ServerCounter::kRequests), requests);
}

TEST_F(Loss, ClosingEndsRequestsAndTheSession) {
  pair_.hold_requests = true;
  const RequestId stat = submit(protocol::StatRequest{});
  const RequestId deleted = submit(protocol::DeleteRequest{});
  const RequestId written = write(100'000, false);
  pair_.client.close(pair_.now);
  pair_.pump();
  EXPECT_TRUE(pair_.closed);
  EXPECT_EQ(pair_.outcome(stat), Outcome::kCancelled);
  EXPECT_EQ(pair_.outcome(deleted), Outcome::kUnknown);
  EXPECT_EQ(pair_.outcome(written), Outcome::kUnknown);
  while (!pair_.held.empty()) pair_.answer_held(0);
  pair_.pump();
  EXPECT_TRUE(pair_.server->idle());
  EXPECT_EQ(pair_.server->clients(), 0u);  // it will not come back
}

TEST_F(Loss, ShuttingDown) {
  pair_.server->shut_down(pair_.now);
  pair_.pump();
  EXPECT_TRUE(pair_.server->idle());
  EXPECT_EQ(pair_.lost, "the server is shutting down");
  pair_.advance(5 * kSecond);
  EXPECT_FALSE(pair_.client.active());
  EXPECT_FALSE(pair_.refused);
  restart();
}

TEST_F(Loss, AFailedQueuePairEndsTheSession) {
  pair_.server->on_queue_pair_failed(pair_.queue_pair, pair_.now);
  pair_.pump();
  ASSERT_EQ(pair_.ended.size(), 1u);
  EXPECT_EQ(pair_.ended[0].reason, EndReason::kFabric);
  pair_.advance(kSecond);
  EXPECT_TRUE(pair_.client.active());
}

}  // namespace
}  // namespace verbena::session
