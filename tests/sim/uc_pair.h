// SPDX-License-Identifier: Apache-2.0
// A UC connection: messages arrive whole, in order and at most once, or not at all; WRITEs may
// arrive in part. Bad requests are dropped by the far end without a word; bad local keys stop the
// send queue (SQE) until the program lets it run again.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sim/connection.h"
#include "sim/recv_pool.h"
#include "sim/world.h"

namespace verbena::sim {

struct UcSpec {
  uint32_t host[2] = {0, 1};
  transport::Mtu mtu = transport::Mtu::k1024;
  uint32_t max_message = 8192;
  uint32_t budget = 20;
  Duration pace = 50 * kMicrosecond;
  PoolSpec pool;
  wire::Psn psn[2];
};

class UcPair final : public Actor {
 public:
  UcPair(World& world, const UcSpec& spec);

  void start();
  void finish() { finishing_ = true; }
  [[nodiscard]] bool done() const;
  [[nodiscard]] uint64_t operations() const { return posted_; }
  // Targets hold only bytes that someone wrote there.
  void check_targets();

  void on_send_done(uint32_t end, const transport::Completion& completion) override;
  void on_receive_done(uint32_t end, const transport::Completion& completion) override;

 private:
  static constexpr uint32_t kSlots = 6;
  struct Message {
    bool write = false;
    bool has_imm = false;
    uint32_t imm = 0;
    std::vector<uint8_t> payload;
    uint32_t length = 0;
  };
  struct Request {
    uint64_t id;
    bool bad_local;
    Range local;
  };
  struct Written {
    uint64_t pattern;
    uint32_t length;
  };
  struct Side {
    End end;
    std::unique_ptr<RecvPool> pool;
    Region local;
    Region target;  // the far end's WRITEs land here
    std::deque<Request> outstanding;
    std::vector<Message> sent;                         // from this side
    size_t next_expected = 0;                          // index into the peer's `sent`
    std::array<std::vector<Written>, kSlots> written;  // by the peer, per slot of `target`
    uint32_t budget = 0;
    bool stopped = false;  // SQE
  };
  void tick(uint32_t side);
  void post(uint32_t side);
  [[nodiscard]] uint32_t slot_bytes() const { return spec_.max_message; }

  World& world_;
  UcSpec spec_;
  std::array<Side, 2> sides_;
  bool finishing_ = false;
  uint64_t next_id_ = 1;
  uint64_t posted_ = 0;
};

}  // namespace verbena::sim
