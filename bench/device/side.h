// SPDX-License-Identifier: Apache-2.0
// One end of a benchmark: a process pinned to a core with a device, some memory and connected queue
// pairs. The two ends agree over a socket pair.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"

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
};

// What one end tells the other.
struct Remote {
  uint64_t addr = 0;
  uint32_t rkey = 0;
  std::vector<uint32_t> qpns;
};

class Side {
 public:
  // `control` is this end of the socket pair.
  Side(int control, const SideOptions& options);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  [[nodiscard]] uint8_t* memory() { return memory_; }
  [[nodiscard]] device::Context& context() { return context_; }
  [[nodiscard]] device::CompletionQueue& cq() { return *cq_; }
  [[nodiscard]] device::CompletionChannel* channel() { return channel_.get(); }

  void post(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes, uint32_t flags,
            uint32_t imm = 0);
  void post_many(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes,
                 uint32_t count);
  void post_recv(uint32_t qp, uint64_t offset, uint32_t bytes, uint32_t count = 1);
  // Polls until `count` completions have come; exits the process if one is an error.
  void wait(uint32_t count);
  // The same, sleeping on the channel.
  void sleep_for(uint32_t count);

  // Both ends meet here.
  void barrier();
  void tell(const void* data, size_t bytes);
  void hear(void* data, size_t bytes);

 private:
  void connect(uint32_t index, uint32_t remote_qpn, const transport::Path& path);

  int control_;
  SideOptions options_;
  device::Context context_;
  uint8_t* memory_ = nullptr;
  std::unique_ptr<device::Pd> pd_;
  std::unique_ptr<device::CompletionChannel> channel_;
  std::unique_ptr<device::CompletionQueue> cq_;
  std::unique_ptr<device::Mr> mr_;
  std::vector<std::unique_ptr<device::Qp>> qps_;
  Remote remote_;
  std::unique_ptr<SeededRandom> random_;
  std::unique_ptr<link::RandomFaults> faults_;
  std::unique_ptr<link::FaultFilter> filter_;
};

// Ends the process with a message if `error` is not 0.
void must(int error, const char* what);

}  // namespace verbena::bench
