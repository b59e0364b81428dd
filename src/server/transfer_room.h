// SPDX-License-Identifier: Apache-2.0
// How many bytes of the store transfers may hold at once: chunks that wait for a client's data, or
// that are sent to one. A client that is slow, or means harm, must not keep so many that others
// find none. Owned by the loop.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::server {

class TransferRoom {
 public:
  static constexpr uint64_t kMostOfOne = uint64_t{64} << 20;
  static constexpr uint64_t kMostOfAll = uint64_t{1} << 30;

  TransferRoom() = default;
  // Of a store of this size, all of them have a quarter.
  explicit TransferRoom(uint64_t store_bytes)
      : all_(std::min(store_bytes / 4, kMostOfAll)), one_(std::min(all_ / 4, kMostOfOne)) {}

  // Whether a client that holds so much may have more. Those that have nothing come first: the
  // others leave half of the room to them. A transfer that is larger than the room goes alone.
  [[nodiscard]] bool has(uint64_t held_by_client, uint64_t bytes) const {
    if (held_ == 0) return true;
    if (held_by_client == 0) return held_ + bytes <= all_;
    return held_by_client + bytes <= one_ && held_ + bytes <= all_ / 2;
  }
  void take(uint64_t bytes) { held_ += bytes; }
  void give(uint64_t bytes) { held_ -= bytes; }
  [[nodiscard]] uint64_t held() const { return held_; }

 private:
  uint64_t all_ = kMostOfAll;
  uint64_t one_ = kMostOfOne;
  uint64_t held_ = 0;
};

}  // namespace verbena::server
