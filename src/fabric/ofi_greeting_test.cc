// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_greeting.h"

#include <gtest/gtest.h>

namespace verbena::fabric {
namespace {

using GreetingBytes = std::vector<uint8_t>;

Greeting some_greeting() {
  return {.kind = Greeting::Kind::kAccept,
          .nonce = 0x0102030405060708,
          .format = 3,
          .provider = "shm",
          .address = {1, 2, 3},
          .data = {9}};
}

TEST(OfiGreeting, AsItIsOnTheWire) {
  const GreetingBytes expected{0x56, 0x52, 0x4f, 0x46, 1, 2,   0,   25,  1, 2, 3, 4, 5, 6, 7, 8, 0,
                               0,    0,    3,    0,    3, 's', 'h', 'm', 0, 3, 1, 2, 3, 0, 1, 9};
  EXPECT_EQ(encode(some_greeting()), expected);
}

// In any pieces; what follows is left.
TEST(OfiGreeting, ThereAndBack) {
  const GreetingBytes bytes = encode(some_greeting());
  for (size_t size = 0; size < bytes.size(); ++size) {
    GreetingBytes begin(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    const auto none = take_greeting(begin);
    ASSERT_TRUE(none) << size;
    EXPECT_FALSE(*none) << size;
    EXPECT_EQ(begin.size(), size);
  }
  GreetingBytes more = bytes;
  more.push_back('W');
  const auto taken = take_greeting(more);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ(**taken, some_greeting());
  EXPECT_EQ(more, GreetingBytes{'W'});
}

TEST(OfiGreeting, WhatIsNotOne) {
  const GreetingBytes good = encode(some_greeting());
  const auto refused = [&](size_t at, uint8_t byte) {
    GreetingBytes bytes = good;
    bytes.at(at) = byte;
    return !take_greeting(bytes);
  };
  EXPECT_TRUE(refused(0, 0));  // magic
  EXPECT_TRUE(refused(4, 2));  // version
  EXPECT_TRUE(refused(5, 0));  // kind
  EXPECT_TRUE(refused(5, 4));
  EXPECT_TRUE(refused(6, 4));      // longer than a greeting may be
  EXPECT_TRUE(refused(7, 11));     // shorter than its fixed part
  EXPECT_TRUE(refused(7, 24));     // the last text does not fit
  EXPECT_TRUE(refused(21, 2));     // bytes are left
  EXPECT_TRUE(refused(21, 0xff));  // a text is longer than all
  EXPECT_TRUE(refused(26, 9));
}

}  // namespace
}  // namespace verbena::fabric
