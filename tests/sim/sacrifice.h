// SPDX-License-Identifier: Apache-2.0
// A connection on which wrong things are done on purpose, one kind per round: the requester must be
// told what it did wrong, in the standard's words, everything behind it must be flushed, and
// nothing but the connection itself may come to harm. While the network has faults the answer may
// be lost, and then the requester runs out of retries instead.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "sim/connection.h"
#include "sim/world.h"

namespace verbena::sim {

enum class Sin : uint8_t {
  kBadRkey,
  kOutOfBounds,
  kNoPermission,
  kWrongPd,
  kQpForbids,
  kMisaligned,
  kTooLong,
  kBadLocalKey,
  kBadReceiveKey,
  kBadInvalidate,
  kBadBind,
  kBadLocalInvalidate,
  kNoReceive,
  kDeadPeer,
  kTargetGone,
  kSourceGone,
  kTooManyReads,
  kCount,
};

class Sacrifice final : public Actor {
 public:
  Sacrifice(World& world, uint32_t requester, uint32_t responder, uint32_t rounds);

  void start() { begin_round(); }
  // No more faults: from the next round on every answer must be the right one.
  void finish(uint32_t more);
  [[nodiscard]] bool done() const { return rounds_left_ == 0 && !busy_; }
  [[nodiscard]] const std::array<End, 2>& ends() const { return ends_; }
  [[nodiscard]] uint64_t operations() const { return posted_; }

  void on_send_done(uint32_t end, const transport::Completion& completion) override;
  void on_receive_done(uint32_t end, const transport::Completion& completion) override;
  void on_event(uint32_t /*end*/, transport::Event /*event*/) override {}

 private:
  static constexpr uint32_t kBytes = 16384;
  // Statuses that a request may end with, as a set.
  struct Expected {
    uint64_t id;
    uint32_t statuses;
  };
  void begin_round();
  void post_receives();
  void post_good();
  void sin();
  [[nodiscard]] bool sin_locally(transport::SendRequest& request, memory::Sge& sge);
  [[nodiscard]] bool sin_remotely(transport::SendRequest& request, memory::Sge& sge);
  void sin_by_address(transport::SendRequest& request, memory::Sge& sge);
  void post(transport::SendRequest& request, const memory::Sge& sge, uint32_t statuses);
  void aftermath();
  void end_round();
  void require_refusals();

  World& world_;
  std::array<End, 2> ends_;
  Region source_;
  Region target_;
  Region read_only_;
  Region foreign_;
  uint32_t rounds_left_;
  bool strict_ = false;
  bool strict_round_ = false;
  bool busy_ = false;
  Sin sin_{};
  uint32_t next_sin_;
  bool failed_ = false;
  std::deque<Expected> expected_;
  uint32_t receives_ = 0;
  bool receive_failed_ = false;
  uint64_t next_id_ = 1;
  uint64_t posted_ = 0;
  wire::Psn psn_[2];
};

}  // namespace verbena::sim
