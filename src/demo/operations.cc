// SPDX-License-Identifier: Apache-2.0
#include "demo/operations.h"

#include <array>

namespace verbena::demo {
namespace {

using transport::SendOp;
using enum transport::QpType;

// A few bytes that need padding, part of a packet, a packet and a bit, and many packets. Wireshark
// guesses at what is in a SEND, and calls one of fewer than 8 bytes malformed.
constexpr std::array<uint32_t, 4> kSizes{13, 256, 5000, kMaxMessageBytes};
constexpr std::array<uint32_t, 4> kDatagramSizes{13, 256, 1000, kMtuBytes};
constexpr std::array<uint32_t, 1> kWord{8};
static_assert(kSizes.size() * kMessagesOfEachSize <= kMostMessages);

// Timed large for bytes, small for messages.
constexpr uint32_t kLarge = kMaxMessageBytes;
constexpr uint32_t kSmall = 64;

constexpr Operation kOperations[]{
    {"RC SEND", kRc, SendOp::kSend, kSizes, kLarge},
    {"RC SEND with immediate", kRc, SendOp::kSendImm, kSizes, kSmall},
    {"RC SEND with invalidate", kRc, SendOp::kSendInvalidate, kSizes, kSmall},
    {"RC WRITE", kRc, SendOp::kWrite, kSizes, kLarge},
    {"RC WRITE with immediate", kRc, SendOp::kWriteImm, kSizes, kSmall},
    {"RC READ", kRc, SendOp::kRead, kSizes, kLarge},
    {"RC COMPARE-SWAP", kRc, SendOp::kCompareSwap, kWord, kWord[0]},
    {"RC FETCH-ADD", kRc, SendOp::kFetchAdd, kWord, kWord[0]},
    {"UC SEND", kUc, SendOp::kSend, kSizes, kLarge},
    {"UC WRITE", kUc, SendOp::kWrite, kSizes, kLarge},
    {"UD SEND", kUd, SendOp::kSend, kDatagramSizes, kMtuBytes},
};

}  // namespace

std::span<const Operation> operations() { return kOperations; }

}  // namespace verbena::demo
