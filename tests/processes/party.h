// SPDX-License-Identifier: Apache-2.0
// One end of a small exchange: a device, memory and a few queue pairs. For tests that need two or
// three processes with a part of their own each; what the other end must know is its card.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"

namespace verbena::processes {

inline constexpr uint32_t kMaxQps = 64;
inline constexpr uint32_t kQkey = 0x11111111;
inline constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);

struct Card {
  uint64_t memory = 0;
  uint32_t rkey = 0;
  std::array<uint32_t, kMaxQps> qpns{};
};

struct PartyOptions {
  device::EngineOptions engine;
  wire::Gid address = kLoopback;
  transport::QpType type = transport::QpType::kRc;
  transport::Mtu mtu = transport::Mtu::k1024;
  uint32_t qps = 1;
  uint32_t bytes = 1 << 20;
  uint8_t timeout = 14;
  uint8_t retries = 7;
  bool sleeps = false;  // next() waits on a channel, for ever
};

class Party {
 public:
  // Throws std::runtime_error, with what the device said.
  explicit Party(const PartyOptions& options);
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  [[nodiscard]] Card card() const;
  void connect(const Card& peer, const wire::Gid& address);
  [[nodiscard]] uint8_t* memory() { return memory_.data(); }
  [[nodiscard]] device::Context& context() { return context_; }

  // Between the lower half of the memory here and the upper half there, so that both ends may do so
  // at once. The number of the queue pair is the wr_id.
  void post(uint32_t qp, transport::SendOp op, uint32_t offset, uint32_t bytes);
  // A datagram to queue pair 0 of the other.
  void post_datagram(const Card& peer, const wire::Gid& address, uint32_t bytes);
  void post_recv(uint32_t qp, uint32_t offset, uint32_t bytes);
  // Queue pair 0 and a multicast group.
  void attach(const wire::Gid& group);
  void detach(const wire::Gid& group);
  // The next completion; none when patience ends.
  [[nodiscard]] std::optional<transport::Completion> next();
  [[nodiscard]] std::optional<transport::Completion> next(Duration patience);
  // WRITE of `bytes` patterned bytes and READ back of them; true when they came back right.
  [[nodiscard]] bool echo(uint32_t qp, uint32_t bytes, uint8_t pattern);

 private:
  void to_init(device::Qp& qp);
  void sleep();

  PartyOptions options_;
  device::Context context_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<device::Pd> pd_;
  device::CompletionChannel channel_;
  std::unique_ptr<device::CompletionQueue> cq_;
  std::unique_ptr<device::Mr> mr_;
  std::vector<std::unique_ptr<device::Qp>> qps_;
  Card peer_;
};

}  // namespace verbena::processes
