// SPDX-License-Identifier: Apache-2.0
// One end of a connection: a context with memory, completion queues and queue pairs connected to
// those of the other end, and the few calls that tests are made of. A call that is refused, or a
// completion that does not come in time, throws Broken.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "control.h"
#include "device/device.h"
#include "link/faults.h"
#include "link/receive_filter.h"

namespace verbena::device::testing {

inline constexpr uint32_t kQkey = 0x1234567;
inline constexpr uint32_t kAllRemote =
    memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

struct PairOptions {
  bool one_process = false;  // both ends in this one, sharing the device
  bool ipv6 = false;
  transport::QpType type = transport::QpType::kRc;
  transport::Mtu mtu = transport::Mtu::k4096;
  uint32_t queue_pairs = 1;
  uint32_t first_psn = 0;
  uint64_t memory_bytes = 4 << 20;
  uint32_t depth = 64;      // of each queue
  uint32_t cq_entries = 0;  // 0: enough for all queues
  bool channel = false;
  bool shared_receives = false;  // a shared receive queue
  bool signal_all = true;
  uint8_t timeout = 14;
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  link::FaultRates faults{};  // of what arrives at either end
  uint64_t seed = 1;
};

struct Post {
  transport::SendOp op = transport::SendOp::kSend;
  uint64_t local = 0;  // offsets into the two ends' memory
  uint32_t bytes = 0;
  uint64_t remote = 0;
  uint32_t imm = 0;
  RKey invalidate{};
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t flags = 0;
  uint64_t wr_id = 0;
};

class End {
 public:
  End(const PairOptions& setup, Control control, bool with_faults);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] Engine& engine() { return context_.device().engine(); }
  [[nodiscard]] const PairOptions& setup() const { return setup_; }
  [[nodiscard]] Pd& pd() { return *pd_; }
  [[nodiscard]] Mr& mr() { return *mr_; }
  [[nodiscard]] Qp& qp(uint32_t index) { return *qps_.at(index); }
  [[nodiscard]] CompletionChannel* channel() { return channel_.get(); }
  [[nodiscard]] CompletionQueue& send_cq() { return *send_cq_; }
  [[nodiscard]] CompletionQueue& recv_cq() { return *recv_cq_; }
  [[nodiscard]] Srq& srq() { return *srq_; }
  [[nodiscard]] const transport::Path& path() const { return path_; }
  [[nodiscard]] uint64_t remote_addr(uint64_t offset) const { return remote_.addr + offset; }
  [[nodiscard]] RKey remote_rkey() const { return RKey(remote_.rkey); }
  [[nodiscard]] Qpn remote_qpn(uint32_t index) const { return Qpn(remote_qpns_.at(index)); }
  [[nodiscard]] const link::FaultCounts* faults() const {
    return faults_ ? &faults_->counts() : nullptr;
  }

  // Our memory; guards fit before and behind everything in it.
  [[nodiscard]] std::span<uint8_t> bytes(uint64_t offset, uint64_t n);
  [[nodiscard]] memory::Sge sge(uint64_t offset, uint32_t n);

  [[nodiscard]] int try_post(uint32_t qp, const Post& post);
  void post(uint32_t qp, const Post& post);
  void post_recv(uint32_t qp, uint64_t offset, uint32_t n, uint64_t wr_id = 0);
  // The next completion, good or bad.
  [[nodiscard]] transport::Completion next(CompletionQueue& cq);
  // The next one, which must be good.
  transport::Completion good(CompletionQueue& cq);
  void good(CompletionQueue& cq, uint64_t count);
  [[nodiscard]] transport::Completion sent() { return good(*send_cq_); }
  [[nodiscard]] transport::Completion received() { return good(*recv_cq_); }

  [[nodiscard]] uint64_t counter(transport::Counter which);
  [[nodiscard]] uint32_t overflow();
  [[nodiscard]] transport::QpState state(uint32_t qp);
  void to_error(uint32_t qp);
  // The next asynchronous event; its element is the object's address (for a queue pair, of its
  // Qp).
  [[nodiscard]] AsyncEvent next_event();
  // Whether the descriptor of a channel or an event queue becomes readable in time.
  [[nodiscard]] static bool readable(int fd, std::chrono::milliseconds patience);

  // From any state, through RESET, to connected with the other end's queue pair of the same index.
  void connect(uint32_t index);

  // The line to the other end, with what the device did to our memory before and will do after.
  void barrier() {
    order();
    control_.barrier();
    order();
  }
  template <typename T>
  void tell(const T& value) {
    order();
    control_.tell(value);
  }
  template <typename T>
  [[nodiscard]] T hear() {
    const T value = control_.hear<T>();
    order();
    return value;
  }

 private:
  struct Remote {
    uint64_t addr = 0;
    uint32_t rkey = 0;
  };
  void connect_datagrams(Qp& qp);
  // ThreadSanitizer does not see that a peer's operation comes before or after a word between
  // processes; it sees the engine's lock.
  void order();

  PairOptions setup_;
  Control control_;
  Context context_;
  uint8_t* memory_ = nullptr;
  uint64_t mapped_bytes_ = 0;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<CompletionChannel> channel_;
  std::unique_ptr<CompletionQueue> send_cq_;
  std::unique_ptr<CompletionQueue> recv_cq_;
  std::unique_ptr<Mr> mr_;
  std::unique_ptr<Srq> srq_;
  std::vector<std::unique_ptr<Qp>> qps_;
  transport::Path path_;
  Remote remote_;
  std::vector<uint32_t> remote_qpns_;
  std::vector<uint32_t> times_connected_;
  std::unique_ptr<SeededRandom> random_;
  std::unique_ptr<link::RandomFaults> faults_;
  std::unique_ptr<link::FaultFilter> filter_;
};

// The device of this process, in a group and on a port of this test program's own: nothing else on
// the machine is disturbed or disturbs. Children forked later agree.
[[nodiscard]] const EngineOptions& engine_options();
[[nodiscard]] std::shared_ptr<Device> open_device();
[[nodiscard]] wire::Gid loopback(bool ipv6);

void must(int error, const std::string& what);

}  // namespace verbena::device::testing
