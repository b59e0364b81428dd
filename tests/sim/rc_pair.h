// SPDX-License-Identifier: Apache-2.0
// An RC connection with work in both directions, from connect to the last completion. A sturdy one
// has retries enough for every fault this world knows and must never fail; a fragile one may run
// out of retries, or be reset in the middle of its work, and then starts again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "sim/connection.h"
#include "sim/lane.h"
#include "sim/recv_pool.h"
#include "sim/world.h"

namespace verbena::sim {

struct RcPairSpec {
  uint32_t host[2] = {0, 1};
  bool sturdy = true;
  Terms terms[2];
  LaneSpec lane;
  PoolSpec pool;
  RecvPool* shared_pool[2] = {nullptr, nullptr};  // instead of own receives
  transport::SharedRecvQueue* srq[2] = {nullptr, nullptr};
  uint32_t budget = 40;  // requests per lane in the phase of faults
  Duration pace = 100 * kMicrosecond;
};

class RcPair final : public Actor {
 public:
  RcPair(World& world, const RcPairSpec& spec, SharedWords* shared);

  void start();
  // The faults are over: so many more requests per lane, then one last.
  void finish(uint32_t more);
  [[nodiscard]] bool budget_spent() const;
  [[nodiscard]] bool done() const;

  // What a program may do besides posting work.
  void drain(uint32_t end);  // SQD and back
  void break_off();          // fragile only

  [[nodiscard]] bool connected() const { return state_ == State::kRunning; }
  [[nodiscard]] bool sturdy() const { return spec_.sturdy; }
  [[nodiscard]] Lane& lane(uint32_t i) { return *lanes_[i]; }
  [[nodiscard]] const Terms& terms(uint32_t end) const { return spec_.terms[end]; }
  [[nodiscard]] uint64_t operations() const { return lanes_[0]->posted() + lanes_[1]->posted(); }

  void on_send_done(uint32_t end, const transport::Completion& completion) override;
  void on_receive_done(uint32_t end, const transport::Completion& completion) override;
  void on_event(uint32_t end, transport::Event event) override;

 private:
  enum class State : uint8_t { kNew, kRunning, kBreaking };
  void create(uint32_t end);
  void connect_ends();
  void tick(uint32_t end);
  void fall_apart();
  void take_down(uint32_t end);
  void start_again();
  [[nodiscard]] RecvPool& pool(uint32_t end) {
    return spec_.shared_pool[end] != nullptr ? *spec_.shared_pool[end] : *pools_[end];
  }

  World& world_;
  RcPairSpec spec_;
  std::array<End, 2> ends_;
  std::array<std::unique_ptr<RecvPool>, 2> pools_;
  std::array<std::unique_ptr<Lane>, 2> lanes_;  // lane i: from end i to the other
  std::array<uint32_t, 2> budget_{};
  std::array<bool, 2> last_posted_{};
  enum class Sqd : uint8_t { kNo, kDraining, kDrained };
  std::array<Sqd, 2> sqd_{};
  std::array<bool, 2> failed_{};
  State state_ = State::kNew;
  bool finishing_ = false;
  uint64_t life_ = 0;  // connections so far
};

}  // namespace verbena::sim
