// SPDX-License-Identifier: Apache-2.0
// Plain mode, with no I/O: the twelve steps of the original, one file for each connection, one
// buffer, one chunk at a time (docs/transfer.md).
//
//   sender                                             receiver
//                 <------------------------------------  MEMORY address, rkey
//     WRITE name, immediate = its length  ------------>  opens the file
//                 <------------------------------------  READY
//     WRITE chunk, immediate = its length ------------>  writes it to the file
//                 <------------------------------------  READY     ... until there is no more
//     WRITE nothing, immediate 0          ------------>  closes the file
//                 <------------------------------------  DONE
//     disconnects
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transfer/plain_message.h"
#include "transfer/replies.h"

namespace verbena::transfer {

class PlainReceiving {
 public:
  struct Reply {
    PlainMessage message{};
  };
  struct OpenIt {
    std::string path{};
  };
  struct AppendIt {
    std::span<const uint8_t> data{};
  };
  struct CloseIt {};
  struct End {  // the connection; the file, unless it was closed, is nowhere
    std::string why{};
  };
  using Action = std::variant<Reply, OpenIt, AppendIt, CloseIt, End>;

  explicit PlainReceiving(uint64_t max_file_bytes) : max_file_bytes_(max_file_bytes) {}
  void start(uint64_t address, uint32_t rkey) {
    actions_.emplace_back(Reply{{PlainMessage::Kind::kMemory, address, rkey}});
  }
  // The sender has written so much to the buffer.
  void on_immediate(uint32_t length, std::span<const uint8_t> buffer);
  // OpenIt, AppendIt or CloseIt: an empty text if it was done.
  void on_done(const std::string& why_not);
  [[nodiscard]] std::vector<Action> take_actions() { return std::move(actions_); }
  [[nodiscard]] bool stored() const { return state_ == State::kStored; }
  // The sender has said all; not every sender waits for DONE.
  [[nodiscard]] bool complete() const { return state_ >= State::kClosing; }
  [[nodiscard]] bool ended() const { return state_ == State::kEnded; }

 private:
  enum class State : uint8_t { kName, kOpening, kData, kWriting, kClosing, kStored, kEnded };
  void end(std::string why);

  const uint64_t max_file_bytes_;
  uint64_t bytes_ = 0;  // so far
  State state_ = State::kName;
  std::vector<Action> actions_;
};

class PlainSending {
 public:
  struct WriteName {
    std::string name{};  // with its zero at the end
    uint64_t address = 0;
    uint32_t rkey = 0;
  };
  struct ReadNext {};  // into the buffer
  struct WriteNext {   // so much of the buffer; 0: the end
    uint32_t length = 0;
    uint64_t address = 0;
    uint32_t rkey = 0;
  };
  struct Finished {
    std::string why_not{};  // empty: it is stored
  };
  using Action = std::variant<WriteName, ReadNext, WriteNext, Finished>;

  // Receivers have room for so much, its zero included, and the original does not check.
  static constexpr size_t kMaxNameBytes = 256;

  explicit PlainSending(std::string name) : name_(std::move(name)) {}
  void on_message(std::span<const uint8_t> bytes);
  void on_read(uint32_t length);
  void on_failed(const std::string& why);
  [[nodiscard]] std::vector<Action> take_actions() { return std::move(actions_); }

 private:
  enum class State : uint8_t { kMemory, kReady, kReading, kLast, kOver };
  const std::string name_;
  State state_ = State::kMemory;
  uint64_t address_ = 0;
  uint32_t rkey_ = 0;
  std::vector<Action> actions_;
};

}  // namespace verbena::transfer
