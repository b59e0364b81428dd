// SPDX-License-Identifier: Apache-2.0
#include "transport/receive_room.h"

#include <array>

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

TEST(ReceiveRoom, IsSharedByThoseWhoSentOfLate) {
  ReceiveRoom room;
  EXPECT_EQ(room.share(), 0u);
  room.set(900'000);
  EXPECT_EQ(room.share(), 900'000u);
  std::array<ReceiveRoom::Span, 3> hosts{};
  Time now = kSecond;
  for (int i = 0; i < 100; ++i, now += kMillisecond) {
    for (ReceiveRoom::Span& host : hosts) room.on_heard(host, now);
  }
  EXPECT_EQ(room.share(), 300'000u);
  for (int i = 0; i < 100; ++i, now += kMillisecond) room.on_heard(hosts[0], now);
  EXPECT_EQ(room.share(), 900'000u);
}

TEST(ReceiveRoom, AHostThatComesAfterSilenceHasAllOfIt) {
  ReceiveRoom room;
  room.set(900'000);
  std::array<ReceiveRoom::Span, 3> hosts{};
  for (ReceiveRoom::Span& host : hosts) room.on_heard(host, kSecond);
  EXPECT_EQ(room.share(), 300'000u);
  room.on_heard(hosts[0], 2 * kSecond);
  EXPECT_EQ(room.share(), 900'000u);
}

}  // namespace
}  // namespace verbena::transport
