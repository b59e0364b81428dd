// SPDX-License-Identifier: Apache-2.0
// What messages that are refused cost the server, beside pings: CPU time of its process, so that
// load of the machine matters little. It polls without waiting for more, which would count as work.
// What is looked for is a refusal that does the work before it refuses: tens of pings or more.
// Less than that is a matter of figures, which a loaded machine cannot tell: VERBENA_SERVE_PINGS=2
// holds all to two pings, on a quiet one.
// VERBENA_SERVE_ROUNDS: how often each is measured (3); more often where that does not do, for the
// least of few is not the least there is.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "serve/attacks.h"
#include "serve/hostile.h"

namespace verbena::serve {
namespace {

constexpr size_t kAtOnce = 32;
constexpr size_t kLargest = 32768;  // bytes, inline
constexpr size_t kBatches = VERBENA_SERVE_FEWER ? 2 : 8;
constexpr size_t kSessions = VERBENA_SERVE_FEWER ? 3 : 10;

class HostileCost : public HostileFixture {
 protected:
  HostileCost() : HostileFixture("", "0") {}

  struct Kind {
    std::string name;
    size_t messages;  // in one measurement
    std::function<void()> send;
    double ns = std::numeric_limits<double>::max();  // of one, the least
  };
  // Each in turn, so that what changes with time changes for all. Then none may take more than its
  // limit.
  void measure(std::vector<Kind>& kinds, const std::function<double(const Kind&)>& limit) {
    constexpr uint64_t kMore = VERBENA_SERVE_FEWER ? 1 : 10;
    const uint64_t rounds = setting("VERBENA_SERVE_ROUNDS", VERBENA_SERVE_FEWER ? 1 : 3);
    const auto fine = [&](const Kind& kind) { return kind.ns <= limit(kind); };
    for (uint64_t round = 0; round < kMore * rounds; ++round) {
      if (round >= rounds && std::ranges::all_of(kinds, fine)) break;
      for (Kind& kind : kinds) {
        SCOPED_TRACE(kind.name);
        const uint64_t begin = cpu();
        ASSERT_NO_FATAL_FAILURE(kind.send());
        const auto each = static_cast<double>(cpu() - begin) / static_cast<double>(kind.messages);
        kind.ns = std::min(kind.ns, each);
      }
    }
    for (const Kind& kind : kinds) {
      std::printf("%8.1f us  %s\n", kind.ns / 1e3, kind.name.c_str());
      if (VERBENA_SERVE_FEWER == 0) {
        EXPECT_LE(kind.ns, limit(kind)) << kind.name;
      }
    }
  }
  // Of kinds that are answered, several under way at once.
  [[nodiscard]] Kind answered(std::string name, RawClient& client, std::function<void()> send) {
    return {std::move(name), kAtOnce * kBatches, [&client, send = std::move(send)] {
              for (size_t batch = 0; batch < kBatches; ++batch) {
                for (size_t i = 0; i < kAtOnce; ++i) send();
                ASSERT_TRUE(client.take_answers(kAtOnce));
              }
            }};
  }
};

TEST_F(HostileCost, OfRefusedRequestsIsThatOfAFewPings) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  auto other = raw();
  auto client = raw();
  ASSERT_TRUE(other.open());
  ASSERT_TRUE(client.open());
  std::vector<Kind> kinds;
  for (const size_t bytes : {size_t{0}, kLargest}) {
    kinds.push_back(
        answered("ping of " + std::to_string(bytes) + " bytes", client, [&, data = Bytes(bytes)] {
          const uint64_t id = client.next_id();
          EXPECT_TRUE(
              client.send(client.encode(protocol::Ping{.id = id, .oldest = id, .data = data})));
        }));
  }
  const std::vector<Attack> attacks = all_attacks();
  for (const Attack& with : attacks) {
    if (with.ends) continue;
    kinds.push_back(answered(with.name, client, [&] { with.send(client, other, random_); }));
  }
  const auto pings = static_cast<double>(setting("VERBENA_SERVE_PINGS", 8));
  measure(kinds, [&](const Kind& kind) {
    // What is as large as a message can be is compared with pings as large.
    const bool large = kind.name == "inline data above the limit" || &kind == &kinds[1];
    return pings * kinds[large ? 1 : 0].ns;
  });
}

// A session that ends with a bad message beside one that ends in order.
TEST_F(HostileCost, OfTheEndOfASessionIsThatOfAnyEnd) {
  SCOPED_TRACE(testing::Message() << "VERBENA_SERVE_SEED=" << seed_);
  auto other = raw();
  ASSERT_TRUE(other.open());
  auto client = raw();
  std::vector<Kind> kinds;
  const auto ping = [&] {
    const uint64_t id = client.next_id();
    ASSERT_TRUE(client.send(client.encode(protocol::Ping{.id = id, .oldest = 1})));
    ASSERT_EQ(client.answer_to(id), protocol::Status::kOk);
  };
  kinds.push_back({"session with two pings", kSessions, [&] {
                     for (size_t i = 0; i < kSessions; ++i) {
                       ASSERT_TRUE(client.open());
                       ping();
                       ping();
                     }
                     client.close();
                   }});
  const std::vector<Attack> attacks = all_attacks();
  for (const Attack& with : attacks) {
    if (!with.ends) continue;
    kinds.push_back({"session with: " + with.name, kSessions, [&] {
                       for (size_t i = 0; i < kSessions; ++i) {
                         ASSERT_TRUE(client.open());
                         ASSERT_NO_FATAL_FAILURE(attack(with, client, other, random_));
                       }
                       client.close();
                     }});
  }
  measure(kinds, [&](const Kind&) { return 4 * kinds.front().ns; });
}

}  // namespace
}  // namespace verbena::serve
