// SPDX-License-Identifier: Apache-2.0
// What the live run shows: each operation, and the messages it is shown with.
#pragma once

#include <cstdint>
#include <span>

#include "transport/types.h"

namespace verbena::demo {

inline constexpr uint32_t kMtuBytes = 4096;
inline constexpr uint32_t kMaxMessageBytes = 65'536;
inline constexpr uint32_t kMessagesOfEachSize = 3;

struct Operation {
  const char* name;
  transport::QpType service;
  transport::SendOp op;
  std::span<const uint32_t> sizes;  // of the messages that are compared
  uint32_t burst_bytes;             // of those that are timed

  [[nodiscard]] uint32_t messages() const {
    return static_cast<uint32_t>(sizes.size()) * kMessagesOfEachSize;
  }
  [[nodiscard]] uint32_t bytes_of(uint32_t message) const {
    return sizes[message / kMessagesOfEachSize];
  }
  [[nodiscard]] bool invalidates() const { return op == transport::SendOp::kSendInvalidate; }
  [[nodiscard]] bool is_send() const {
    return op == transport::SendOp::kSend || op == transport::SendOp::kSendImm || invalidates();
  }
  [[nodiscard]] bool has_imm() const {
    return op == transport::SendOp::kSendImm || op == transport::SendOp::kWriteImm;
  }
  [[nodiscard]] bool is_atomic() const {
    return op == transport::SendOp::kCompareSwap || op == transport::SendOp::kFetchAdd;
  }
  // Each message takes a receive from the target's queue.
  [[nodiscard]] bool takes_receive() const {
    return is_send() || op == transport::SendOp::kWriteImm;
  }
  // Neither end is told when a message has arrived: an empty send behind it tells.
  [[nodiscard]] bool needs_marker() const {
    return service == transport::QpType::kUc && !takes_receive();
  }
};

inline constexpr uint32_t kMostMessages = 12;

[[nodiscard]] std::span<const Operation> operations();

}  // namespace verbena::demo
