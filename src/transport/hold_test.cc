// SPDX-License-Identifier: Apache-2.0
#include "transport/hold.h"

#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "transport/testing.h"

namespace verbena::transport::testing {
namespace {

using wire::Psn;

// Keeps packets after a missing one until there is no room; how many.
size_t fill(Hold& hold, HoldPool& pool, uint32_t most) {
  size_t kept = 0;
  for (uint32_t i = 1; i <= most; ++i) {
    const Packet packet(
        headers_of(wire::Service::kRc, wire::Op::kWriteMiddle, Qpn(1), Psn(100 + i)), pattern(256));
    if (hold.keep(pool, Psn(100), arriving(packet)) == Hold::Kept::kNot) break;
    ++kept;
  }
  return kept;
}

TEST(HoldPool, OneThatTakesAllItCanLeavesRoomForOthers) {
  HoldPool pool(64);
  Hold first;
  EXPECT_EQ(fill(first, pool, 100), 32u);
  Hold second;
  EXPECT_EQ(fill(second, pool, 100), 16u);
  Hold third;
  EXPECT_EQ(fill(third, pool, 100), 8u);
  EXPECT_EQ(pool.in_use(), 56u);
  // What one gives back, others may have.
  first.clear(pool);
  EXPECT_EQ(fill(third, pool, 100), 24u);
  second.clear(pool);
  third.clear(pool);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(HoldPool, OfNoneNothingIsKept) {
  HoldPool pool(0);
  Hold hold;
  EXPECT_EQ(fill(hold, pool, 1), 0u);
}

// One of the two is forged, and nobody can tell which.
TEST(Hold, OfTwoThatDifferNoneIsHeld) {
  HoldPool pool(64);
  Hold hold;
  auto headers = headers_of(wire::Service::kRc, wire::Op::kWriteOnly, Qpn(1), Psn(102));
  headers.reth = {0x1000, RKey(7), 4};
  const auto keep = [&](const wire::Headers& with, const Bytes& payload) {
    return hold.keep(pool, Psn(100), arriving(Packet(with, payload)));
  };
  EXPECT_EQ(keep(headers, pattern(4)), Hold::Kept::kNew);
  auto other = headers;
  other.bth.ack_request = true;  // a copy may have it
  EXPECT_EQ(keep(other, pattern(4)), Hold::Kept::kBefore);
  EXPECT_EQ(keep(headers, pattern(4, 9)), Hold::Kept::kNoLonger);
  EXPECT_EQ(hold.find(Psn(102)), nullptr);
  EXPECT_TRUE(hold.empty());
  EXPECT_EQ(pool.in_use(), 0u);

  EXPECT_EQ(keep(headers, pattern(4)), Hold::Kept::kNew);
  other.reth.address += 4;
  EXPECT_EQ(keep(other, pattern(4)), Hold::Kept::kNoLonger);
  EXPECT_EQ(keep(headers, pattern(4)), Hold::Kept::kNew);
  other = headers;
  other.bth.solicited = true;
  EXPECT_EQ(keep(other, pattern(4)), Hold::Kept::kNoLonger);
  EXPECT_EQ(pool.in_use(), 0u);
}

// Of a response to a READ that was asked for twice, only the data counts.
TEST(Hold, CopiesOfResponsesMayCountDifferently) {
  HoldPool pool(64);
  Hold hold;
  auto headers = headers_of(wire::Service::kRc, wire::Op::kReadResponseOnly, Qpn(1), Psn(102));
  headers.aeth = {wire::syndrome::kAckNoCredits, 5};
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, pattern(4)))), Hold::Kept::kNew);
  headers.aeth.msn = 6;
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, pattern(4)))), Hold::Kept::kBefore);
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, pattern(4, 9)))),
            Hold::Kept::kNoLonger);
  EXPECT_EQ(pool.in_use(), 0u);
}

// What is asked for again begins with a First and ends with a Last, wherever it lies in the whole.
TEST(Hold, CopiesOfResponsesMayStandElsewhereInWhatWasAskedFor) {
  HoldPool pool(64);
  Hold hold;
  auto headers = headers_of(wire::Service::kRc, wire::Op::kReadResponseMiddle, Qpn(1), Psn(102));
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, pattern(256)))), Hold::Kept::kNew);
  for (const wire::Op op : {wire::Op::kReadResponseFirst, wire::Op::kReadResponseLast,
                            wire::Op::kReadResponseOnly, wire::Op::kReadResponseMiddle}) {
    headers = headers_of(wire::Service::kRc, op, Qpn(1), Psn(102));
    EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, pattern(256)))),
              Hold::Kept::kBefore);
  }
  hold.clear(pool);
}

TEST(Hold, OfTwoAnswersToOneAtomicThatDifferNoneIsHeld) {
  HoldPool pool(64);
  Hold hold;
  auto headers = headers_of(wire::Service::kRc, wire::Op::kAtomicAcknowledge, Qpn(1), Psn(102));
  headers.atomic_ack_eth = {7};
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, {}))), Hold::Kept::kNew);
  headers.aeth.msn = 6;
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, {}))), Hold::Kept::kBefore);
  headers.atomic_ack_eth = {8};
  EXPECT_EQ(hold.keep(pool, Psn(100), arriving(Packet(headers, {}))), Hold::Kept::kNoLonger);
  EXPECT_EQ(pool.in_use(), 0u);
}

// Against a set of PSNs, around where they begin anew.
TEST(Hold, IsTheSameAsASetOfPsns) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SeededRandom random(seed);
    HoldPool pool(3 * Hold::kMaxPackets);
    Hold hold;
    std::set<uint32_t> held;  // as distances from the first that was expected
    const Psn start(Psn::kMask - static_cast<uint32_t>(random.below(4000)));
    uint32_t expected = 0;
    const auto spread = static_cast<uint32_t>(random.below(2) == 0 ? 100 : Hold::kMaxPackets + 20);
    for (int step = 0; step < 3000; ++step) {
      if (random.below(4) != 0) {
        const uint32_t at = expected + static_cast<uint32_t>(random.below(spread));
        const Packet packet(
            headers_of(wire::Service::kRc, wire::Op::kWriteMiddle, Qpn(1), start + at), pattern(4));
        const bool fits = at - expected <= static_cast<uint32_t>(Hold::kMaxAhead);
        ASSERT_EQ(hold.keep(pool, start + expected, arriving(packet)) != Hold::Kept::kNot, fits)
            << at - expected;
        if (fits) held.insert(at);
      } else {
        expected += static_cast<uint32_t>(random.below(spread / 8));
        held.erase(held.begin(), held.lower_bound(expected));
        hold.release_before(pool, start + expected);
      }
      ASSERT_EQ(pool.in_use(), held.size());
      ASSERT_EQ(hold.empty(), held.empty());
      const uint32_t at = expected + static_cast<uint32_t>(random.below(spread));
      ASSERT_EQ(hold.find(start + at) != nullptr, held.contains(at));
      if (const InPacket* const found = hold.find(start + at)) {
        ASSERT_EQ(found->view.bth.psn, start + at);
      }
      const auto next = held.lower_bound(at);
      ASSERT_EQ(hold.gap_after(start + at, 99'999), next == held.end() ? 99'999 : *next - at);
      uint32_t missing = at;
      while (held.contains(missing)) ++missing;
      ASSERT_EQ(hold.next_missing(start + at), start + missing);
      uint32_t word = 0;
      for (uint32_t i = 0; i < 32; ++i) word |= held.contains(at + i) ? 0x80000000u >> i : 0;
      if (!held.empty()) {
        ASSERT_EQ(hold.word_at(start + at), word);
      }
    }
    hold.clear(pool);
    ASSERT_EQ(pool.in_use(), 0u);
  }
}

}  // namespace
}  // namespace verbena::transport::testing
