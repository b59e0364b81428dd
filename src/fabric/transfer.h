// SPDX-License-Identifier: Apache-2.0
// An operation as a sequence of work requests: each has one range of the peer's memory, and as many
// parts of ours as a work request can have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "fabric/fabric.h"

namespace verbena::fabric {

class Transfer {
 public:
  Transfer(bool is_read, OperationId operation, std::span<const Local> ours,
           std::span<const Remote> theirs);

  [[nodiscard]] bool is_read() const { return is_read_; }
  [[nodiscard]] OperationId operation() const { return operation_; }
  // Both sides have as many bytes, at least one.
  [[nodiscard]] bool is_valid() const;
  // Once, if it is valid: its number, unique, and the key of each piece of our memory.
  template <typename KeyOf>
  void set_keys(uint64_t number, KeyOf&& key_of) {
    number_ = number;
    keys_.reserve(ours_.size());
    for (const Local& local : ours_) keys_.push_back(key_of(local));
  }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] std::span<const Local> ours() const { return ours_; }
  [[nodiscard]] uint32_t key(size_t index) const { return keys_[index]; }
  [[nodiscard]] bool is_scattered() const { return theirs_.size() > 1; }
  // From now on a piece of our memory, all its parts, is the range of a key, from address 0.
  void use_key(size_t index, uint32_t key);
  [[nodiscard]] bool done() const { return their_ == theirs_.size(); }

  struct Step {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t parts = 0;  // of those that were given
  };
  // The next one; only after set_keys(), and if it is not done().
  [[nodiscard]] Step next(std::span<ibv_sge> parts);

 private:
  [[nodiscard]] ibv_sge take(uint64_t most);

  bool is_read_;
  OperationId operation_;
  uint64_t number_ = 0;
  std::vector<Local> ours_;
  std::vector<uint32_t> keys_;
  std::vector<Remote> theirs_;
  size_t our_ = 0;     // in ours_
  uint32_t part_ = 0;  // of it
  uint32_t used_ = 0;  // bytes of that
  size_t their_ = 0;
  uint32_t their_used_ = 0;
};

}  // namespace verbena::fabric
