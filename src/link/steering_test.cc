// SPDX-License-Identifier: Apache-2.0
#include "link/steering.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "cm/mad.h"
#include "link/shared_table.h"

namespace verbena::link {
namespace {

constexpr ManagementAttributes kMessages{
    .request = static_cast<uint16_t>(cm::Attribute::kReq),
    .sidr_request = static_cast<uint16_t>(cm::Attribute::kSidrReq),
    .sidr_reply = static_cast<uint16_t>(cm::Attribute::kSidrRep)};

// What the kernel does with the instructions we use.
uint32_t run(std::span<const sock_filter> program, std::span<const uint8_t> packet,
             uint32_t random = 0) {
  uint32_t a = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& op = program[at];
    switch (op.code) {
      case BPF_LD | BPF_B | BPF_ABS:
        if (op.k >= packet.size()) return 0;
        a = packet[op.k];
        break;
      case BPF_LD | BPF_H | BPF_ABS:
        if (op.k + 1 >= packet.size()) return 0;
        a = static_cast<uint32_t>(packet[op.k] << 8 | packet[op.k + 1]);
        break;
      case BPF_LD | BPF_W | BPF_ABS:
        EXPECT_EQ(op.k, kRandomWord);
        a = random;
        break;
      case BPF_ALU | BPF_MOD | BPF_K: a %= op.k; break;
      case BPF_JMP | BPF_JEQ | BPF_K: at += a == op.k ? op.jt : op.jf; break;
      case BPF_JMP | BPF_JGE | BPF_K: at += a >= op.k ? op.jt : op.jf; break;
      case BPF_JMP | BPF_JA | BPF_K:  at += op.k; break;
      case BPF_RET | BPF_K:           return op.k;
      case BPF_RET | BPF_A:           return a;
      default:                        ADD_FAILURE() << "unknown instruction " << op.code; return 0;
    }
  }
  ADD_FAILURE() << "ran off the end";
  return 0;
}

void check(const std::vector<uint8_t>& order) {
  const auto program = steering_program(order, kMessages);
  EXPECT_LE(program.size(), size_t{BPF_MAXINSNS});
  std::array<uint8_t, 16> packet{};
  for (uint32_t slot = kFirstSlot; slot < kProbeSlot; ++slot) {
    packet[kSlotByte] = static_cast<uint8_t>(slot);
    const auto at = std::ranges::find(order, static_cast<uint8_t>(slot));
    const uint32_t expected =
        at == order.end() ? kAnySocket : static_cast<uint32_t>(at - order.begin());
    ASSERT_EQ(run(program, packet), expected) << "slot " << slot << " of " << order.size();
  }
  packet[kSlotByte] = kProbeSlot;
  for (uint32_t index = 0; index < 256; ++index) {
    packet[kProbeIndexByte] = static_cast<uint8_t>(index);
    ASSERT_EQ(run(program, packet), index);
  }
}

// What is for QP1, by the message's attribute.
std::array<uint8_t, 60> mad(cm::Attribute attribute, uint8_t own, uint8_t remote) {
  std::array<uint8_t, 60> packet{};
  packet[kAttributeAt + 1] = static_cast<uint8_t>(attribute);
  packet[kOwnIdByte] = own;
  packet[kRemoteIdByte] = remote;
  return packet;
}

TEST(Steering, MessagesOfTheConnectionManagerByTheIdOfTheirReceiver) {
  const std::vector<uint8_t> order{9, 5, 200};
  const auto program = steering_program(order, kMessages);
  for (const auto attribute : {cm::Attribute::kRep, cm::Attribute::kRtu, cm::Attribute::kRej,
                               cm::Attribute::kMra, cm::Attribute::kDreq, cm::Attribute::kDrep}) {
    EXPECT_EQ(run(program, mad(attribute, 9, 5)), 1u);
    EXPECT_EQ(run(program, mad(attribute, 9, 77)), kAnySocket);
  }
  EXPECT_EQ(run(program, mad(cm::Attribute::kSidrRep, 200, 5)), 2u);
  for (const auto attribute : {cm::Attribute::kReq, cm::Attribute::kSidrReq}) {
    for (uint32_t random = 0; random < 9; ++random) {
      EXPECT_EQ(run(program, mad(attribute, 9, 5), random), random % 3);
    }
    auto hinted = mad(attribute, 9, 5);
    hinted[kHintByte] = 200;
    EXPECT_EQ(run(program, hinted, 1), 2u);
    hinted[kHintByte] = 77;
    EXPECT_EQ(run(program, hinted, 1), kAnySocket);
  }
}

TEST(Steering, EachSlotToItsIndex) {
  SeededRandom random(1);
  std::vector<uint8_t> all(kLastSlot);
  std::iota(all.begin(), all.end(), kFirstSlot);
  for (const size_t count : {0, 1, 2, 3, 4, 7, 16, 33, 100, 253, 254}) {
    for (size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random.below(i + 1)]);
    check({all.begin(), all.begin() + static_cast<ptrdiff_t>(count)});
  }
}

TEST(Steering, DepthIsLogarithmic) {
  std::vector<uint8_t> all(kLastSlot);
  std::iota(all.begin(), all.end(), kFirstSlot);
  // 254 leaves of three, 253 nodes of two, four and QP1's fifteen before: the kernel's default
  // option memory (20 KiB) holds it.
  EXPECT_EQ(steering_program(all, kMessages).size(), 254U * 3 + 253 * 2 + 19);
}

}  // namespace
}  // namespace verbena::link
