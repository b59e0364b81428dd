// SPDX-License-Identifier: Apache-2.0
// One end of a benchmark: a device, some memory and connected queue pairs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/ends.h"
#include "device/device.h"
#include "link/receive_filter.h"

namespace verbena::bench {

struct SideOptions {
  bool ipv6 = false;
  transport::Mtu mtu = transport::Mtu::k4096;
  uint32_t queue_pairs = 1;
  uint64_t memory_bytes = 64 << 20;
  uint32_t depth = 256;
  bool with_channel = false;
  transport::QpType type = transport::QpType::kRc;
  uint32_t loss_ppm = 0;  // of what arrives here
  link::LinkKind link = link::LinkKind::kUdp;
};

// What one end tells the other.
struct Remote {
  uint64_t addr = 0;
  uint32_t rkey = 0;
  std::vector<uint32_t> qpns;
  uint32_t first_psn = 0;  // of all its queue pairs
};

class Side {
 public:
  Side(const Control& control, const SideOptions& options);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] uint8_t* memory() { return memory_; }
  [[nodiscard]] device::Context& context() { return context_; }
  [[nodiscard]] device::Pd& pd() { return *pd_; }
  [[nodiscard]] const device::Mr& mr() const { return *mr_; }
  [[nodiscard]] const Remote& remote() const { return remote_; }
  [[nodiscard]] device::CompletionQueue& cq() { return *cq_; }
  [[nodiscard]] device::CompletionChannel* channel() { return channel_.get(); }

  void post(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes, uint32_t flags,
            uint32_t imm = 0);
  // The same, to another place than the one it comes from.
  void post(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes, uint32_t flags,
            uint32_t imm, uint64_t remote_offset);
  // Any request.
  void post(uint32_t qp, const transport::SendRequest& request);
  // The same request again and again, the last with a completion; made once, as programs do.
  struct Chain {
    std::array<memory::Sge, 1> list;
    std::vector<transport::SendRequest> requests;
  };
  [[nodiscard]] std::unique_ptr<Chain> chain_of(transport::SendOp op, uint64_t offset,
                                                uint32_t bytes, uint32_t count) const;
  void post(uint32_t qp, const Chain& chain);
  void post_recv(uint32_t qp, uint64_t offset, uint32_t bytes, uint32_t count = 1);
  // Polls until `count` completions have come; exits the process if one is an error.
  void wait(uint32_t count);
  // Polls for the next completion; gives the index of its queue pair.
  [[nodiscard]] uint32_t wait_for_one();
  // The same, sleeping on the channel.
  void sleep_for(uint32_t count);

 private:
  void connect(uint32_t index, uint32_t remote_qpn, const transport::Path& path);

  const Control& control_;
  SideOptions options_;
  device::Context context_;
  uint8_t* memory_ = nullptr;
  std::unique_ptr<device::Pd> pd_;
  std::unique_ptr<device::CompletionChannel> channel_;
  std::unique_ptr<device::CompletionQueue> cq_;
  std::unique_ptr<device::Mr> mr_;
  std::vector<std::unique_ptr<device::Qp>> qps_;
  std::unordered_map<uint32_t, uint32_t> index_of_;    // queue pairs by number
  std::array<transport::Completion, 32> completions_;  // polled, not yet looked at
  uint32_t next_ = 0;
  uint32_t got_ = 0;
  wire::Psn first_psn_;
  Remote remote_;
  std::unique_ptr<SeededRandom> random_;
  std::unique_ptr<link::RandomFaults> faults_;
  std::unique_ptr<link::FaultFilter> filter_;
};

}  // namespace verbena::bench
