// SPDX-License-Identifier: Apache-2.0
// Datagrams between all hosts: each arrives whole, with the right GRH, no more often than the
// network carried it, or not at all.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/connection.h"
#include "sim/recv_pool.h"
#include "sim/world.h"

namespace verbena::sim {

struct UdSpec {
  uint32_t budget = 15;  // per host
  uint32_t max_payload = 1024;
  uint32_t short_receive_percent = 10;
  Duration pace = 50 * kMicrosecond;
};

class UdGroup final : public Actor, public FrameTap {
 public:
  UdGroup(World& world, const UdSpec& spec);

  void start();
  void finish();
  [[nodiscard]] bool done() const;
  void check();
  [[nodiscard]] uint64_t operations() const { return posted_; }

  void on_send_done(uint32_t end, const transport::Completion& completion) override;
  void on_receive_done(uint32_t end, const transport::Completion& completion) override;
  void on_frame(const link::FrameEvent& event) override;
  // A frame reached a host by other ways than the network.
  void count_delivery(std::span<const uint8_t> frame);

 private:
  static constexpr uint32_t kQkey = 0x11112222;
  struct Datagram {
    uint32_t from = 0;
    uint32_t to = 0;
    std::vector<uint8_t> payload;
    bool good_key = true;
    uint32_t carried = 0;
    uint32_t received = 0;
  };
  struct Member {
    End end;
    std::unique_ptr<RecvPool> pool;
    Region local;
    struct Request {
      uint64_t id;
      bool bad_local;
    };
    std::deque<Request> outstanding;
    uint32_t budget = 0;
    bool stopped = false;
  };
  void tick(uint32_t member);
  void post(uint32_t member);

  World& world_;
  UdSpec spec_;
  std::vector<Member> members_;
  std::unordered_map<uint32_t, Datagram> datagrams_;  // by immediate data, which names it
  uint32_t next_name_ = 1;
  uint64_t next_id_ = 1;
  uint64_t posted_ = 0;
};

}  // namespace verbena::sim
