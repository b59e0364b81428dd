// SPDX-License-Identifier: Apache-2.0
// What real networks do, on real sockets: the simulator's faults between the socket and the device
// at both ends. Everything completes, in order, with the right data; atomics are executed once.
// And what a slow receiver must not do: lose datagrams of this host's senders in its socket.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::Completion;
using transport::Counter;
using transport::Mtu;
using transport::QpType;
using transport::SendOp;
using transport::WcStatus;

constexpr uint32_t kDepth = 32;
constexpr uint64_t kSlot = 48 * 1024;
constexpr uint64_t kSumAt = 0;
constexpr uint64_t kResults = 4096;
constexpr uint64_t kWriteArea = 1 << 16;
constexpr uint64_t kSendArea = kWriteArea + kDepth * kSlot;
constexpr uint64_t kReadArea = kSendArea + kDepth * kSlot;
constexpr uint64_t kMemory = kReadArea + kDepth * kSlot;

[[nodiscard]] uint32_t length_of(uint64_t round) {
  return static_cast<uint32_t>(round * 2711 % (kSlot - 2 * kGuardBytes));
}
[[nodiscard]] uint64_t place(uint64_t area, uint64_t round) {
  return area + kSlot * (round % kDepth) + kGuardBytes;
}

// Rounds of four operations, several rounds in flight. Round r uses slot r % kDepth of each area.
void storm_near(End& near, uint64_t rounds) {
  std::vector<uint64_t> sums;
  for (uint64_t r = 0; r < kDepth; ++r) guard(near.bytes(place(kReadArea, r), kSlot / 2));
  near.barrier();
  constexpr uint64_t kAhead = 4;
  for (uint64_t done = 0, posted = 0; done < rounds; ++done) {
    for (; posted < rounds && posted < done + kAhead; ++posted) {
      const uint32_t n = length_of(posted);
      const uint64_t slot = posted % kDepth;
      fill(near.bytes(place(kWriteArea, posted), n), posted);
      fill(near.bytes(place(kSendArea, posted), n), ~posted);
      const auto at = [&](SendOp op, uint64_t area, uint32_t bytes) {
        near.post(0, {.op = op,
                      .local = place(area, posted),
                      .bytes = bytes,
                      .remote = place(area, posted),
                      .imm = static_cast<uint32_t>(posted),
                      .wr_id = 4 * posted + (op == SendOp::kWrite  ? 0
                                             : op == SendOp::kRead ? 1
                                                                   : 2)});
      };
      at(SendOp::kWrite, kWriteArea, n);
      at(SendOp::kRead, kReadArea, n);
      at(SendOp::kSendImm, kSendArea, n);
      near.post(0, {.op = SendOp::kFetchAdd,
                    .local = kResults + 8 * slot,
                    .bytes = 8,
                    .remote = kSumAt,
                    .compare_add = 1,
                    .wr_id = 4 * posted + 3});
    }
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(near.sent().wr_id, 4 * done + i);
    const auto read = near.bytes(place(kReadArea, done), length_of(done));
    ASSERT_EQ(differs(read, 77 + done % kDepth), "") << "READ of round " << done;
    uint64_t sum = 0;
    std::memcpy(&sum, near.bytes(kResults + 8 * (done % kDepth), 8).data(), 8);
    ASSERT_EQ(sum, done) << "an atomic was executed twice, or not at all";
  }
  near.barrier();
}

void storm_far(End& far, uint64_t rounds) {
  std::memset(far.bytes(kSumAt, 8).data(), 0, 8);
  for (uint64_t r = 0; r < kDepth; ++r) {
    fill(far.bytes(place(kReadArea, r), kSlot - 2 * kGuardBytes), 77 + r);
  }
  const auto receive = [&](uint64_t r) {
    guard(far.bytes(place(kSendArea, r), length_of(r)));
    far.post_recv(0, place(kSendArea, r), length_of(r), r);
  };
  // Fewer receives than rounds in flight, at times: RNR comes by.
  for (uint64_t r = 0; r < 3 && r < rounds; ++r) receive(r);
  far.barrier();
  for (uint64_t r = 0; r < rounds; ++r) {
    const Completion completion = far.received();
    ASSERT_EQ(completion.wr_id, r);
    ASSERT_EQ(completion.imm_or_rkey, static_cast<uint32_t>(r));
    ASSERT_EQ(completion.byte_len, length_of(r));
    ASSERT_EQ(differs(far.bytes(place(kSendArea, r), length_of(r)), ~r), "") << "SEND " << r;
    ASSERT_EQ(trespass(far.bytes(place(kSendArea, r), length_of(r))), "") << "SEND " << r;
    // The WRITE went before it.
    ASSERT_EQ(differs(far.bytes(place(kWriteArea, r), length_of(r)), r), "") << "WRITE " << r;
    if (r + 3 < rounds) receive(r + 3);
  }
  far.barrier();
  uint64_t sum = 0;
  std::memcpy(&sum, far.bytes(kSumAt, 8).data(), 8);
  EXPECT_EQ(sum, rounds);
}

struct LossCase {
  const char* name;
  bool one_process;
  bool ipv6;
  Mtu mtu;
  link::FaultRates rates;
};
void PrintTo(const LossCase& c, std::ostream* out) { *out << c.name; }

class Lossy : public ::testing::TestWithParam<LossCase> {};

TEST_P(Lossy, AllCompletesInOrderAndAtomicsOnce) {
  const LossCase& c = GetParam();
  const uint64_t rounds = repeat(100, 30);
  const PairOptions options{.one_process = c.one_process,
                            .ipv6 = c.ipv6,
                            .mtu = c.mtu,
                            .first_psn = 0xffff80,
                            .memory_bytes = kMemory,
                            .faults = c.rates,
                            .seed = 7};
  run_pair(
      options,
      [&](End& near) {
        storm_near(near, rounds);
        EXPECT_GT(near.faults()->total(), 0u);
        EXPECT_EQ(near.overflow(), 0u);
        if (c.rates.corrupt_ppm != 0) {
          const Engine::Locked locked(near.engine());
          EXPECT_GT(near.engine().link().intake_counters().bad_icrc, 0u);
        }
      },
      [&](End& far) { storm_far(far, rounds); });
}

// Corruption only over IPv6: there the ICRC is checked exactly. Over IPv4 the unknown
// identification field leaves one corrupted packet in 65,536 unseen.
INSTANTIATE_TEST_SUITE_P(
    Faults, Lossy,
    ::testing::Values(LossCase{"loss", false, false, Mtu::k1024, {.loss_ppm = 20'000}},
                      LossCase{"heavy loss", true, false, Mtu::k4096, {.loss_ppm = 80'000}},
                      LossCase{"duplication", false, true, Mtu::k1024, {.duplicate_ppm = 100'000}},
                      LossCase{"reordering", false, false, Mtu::k512, {.reorder_ppm = 50'000}},
                      LossCase{"corruption", false, true, Mtu::k2048, {.corrupt_ppm = 20'000}},
                      LossCase{"delay", true, true, Mtu::k4096, {.delay_ppm = 30'000}},
                      LossCase{"everything, two processes",
                               false,
                               true,
                               Mtu::k256,
                               {.loss_ppm = 10'000,
                                .duplicate_ppm = 10'000,
                                .reorder_ppm = 10'000,
                                .delay_ppm = 500,
                                .corrupt_ppm = 10'000}},
                      LossCase{"everything, one process",
                               true,
                               true,
                               Mtu::k4096,
                               {.loss_ppm = 10'000,
                                .duplicate_ppm = 10'000,
                                .reorder_ppm = 10'000,
                                .delay_ppm = 500,
                                .corrupt_ppm = 10'000}}),
    [](const auto& which) {
      std::string name = which.param.name;
      std::erase_if(name, [](char letter) { return std::isalnum(letter) == 0; });
      return name;
    });

// --- blasts at a slow receiver

struct Blast {
  const char* name;
  QpType type;
  bool ipv6;
  uint32_t bytes;
};
void PrintTo(const Blast& blast, std::ostream* out) { *out << blast.name; }

class SlowReceiver : public ::testing::TestWithParam<Blast> {
 protected:
  SlowReceiver()
      : shared_(static_cast<Shared*>(::mmap(nullptr, sizeof *shared_, PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SlowReceiver() override { ::munmap(shared_, sizeof *shared_); }

  // With the receiver's process.
  struct Shared {
    std::atomic<uint32_t> received;
    std::atomic<bool> all_sent;
    // Before that: the receiver took nothing for Membership::kUnresponsiveAfter, so busy is the
    // machine, and was given up, as it should be. What it loses then says nothing.
    std::atomic<bool> given_up;
  };

  // Stops the receiver for a while again and again. In between it gets something done.
  void bully(const std::stop_token& stop) const {
    constexpr uint32_t kSomething = 50;
    const auto wait_ms = [](int n) { std::this_thread::sleep_for(std::chrono::milliseconds(n)); };
    while (!stop.stop_requested()) {
      ::kill(far_process(), SIGSTOP);
      wait_ms(10);
      const uint32_t before = shared_->received;
      ::kill(far_process(), SIGCONT);
      do {
        wait_ms(2);
      } while (!stop.stop_requested() && shared_->received - before < kSomething);
    }
  }
  // The receiver's next one; none: it was given up.
  [[nodiscard]] std::optional<Completion> next(End& far) const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    std::array<Completion, 1> one;
    while (far.context().poll_cq(far.recv_cq(), one) == 0) {
      if (shared_->given_up) return std::nullopt;
      if (std::chrono::steady_clock::now() > until) throw Broken("nothing received");
      ::sched_yield();
    }
    return one[0];
  }
  // Whether it was, by the time that all is sent.
  [[nodiscard]] bool given_up() const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!shared_->all_sent && std::chrono::steady_clock::now() < until) ::sched_yield();
    return shared_->given_up;
  }

  Shared* shared_;
};

// It has a receive posted for everything.
TEST_P(SlowReceiver, LosesNothingToItsSocket) {
  const Blast& blast = GetParam();
  constexpr uint32_t kMessages = kThreadSanitizer ? 1500 : 6000;
  constexpr uint32_t kGrh = 40;
  constexpr uint32_t kRoom = 16 * 1024;
  const PairOptions options{.ipv6 = blast.ipv6,
                            .type = blast.type,
                            .mtu = Mtu::k1024,
                            .memory_bytes = 1 << 20,
                            .depth = kMessages};
  const uint32_t header = blast.type == QpType::kUd ? kGrh : 0;
  run_pair(
      options,
      [&](End& near) {
        fill(near.bytes(0, blast.bytes), 5);
        near.barrier();
        std::jthread bullying([this](const std::stop_token& stop) { bully(stop); });
        for (uint32_t i = 0; i < kMessages; ++i) {
          near.post(0, {.op = SendOp::kSendImm, .local = 0, .bytes = blast.bytes, .imm = i});
        }
        near.good(near.send_cq(), kMessages);
        bullying = {};
        {
          const Engine::Locked locked(near.engine());
          shared_->given_up = near.engine().link().transmit_counters().to_unresponsive != 0;
        }
        shared_->all_sent = true;
        near.barrier();
      },
      [&](End& far) {
        for (uint32_t i = 0; i < kMessages; ++i) far.post_recv(0, 0, kRoom, i);
        far.barrier();
        for (uint32_t i = 0; i < kMessages; ++i) {
          const auto completion = next(far);
          if (!completion || (completion->imm_or_rkey != i && given_up())) {
            std::printf("the receiver was given up after %u messages\n", i);
            return far.barrier();
          }
          ASSERT_EQ(completion->status, WcStatus::kSuccess);
          ASSERT_EQ(completion->imm_or_rkey, i) << "a datagram is missing";
          ASSERT_EQ(completion->byte_len, header + blast.bytes);
          ++shared_->received;
        }
        EXPECT_EQ(differs(far.bytes(header, blast.bytes), 5), "");
        EXPECT_EQ(far.overflow(), 0u);
        EXPECT_EQ(far.counter(Counter::kUcMessageDropped), 0u);
        far.barrier();
      });
}

INSTANTIATE_TEST_SUITE_P(Blasts, SlowReceiver,
                         ::testing::Values(Blast{"UdSmall", QpType::kUd, false, 16},
                                           Blast{"UdLarge", QpType::kUd, true, 4096},
                                           Blast{"UcSmall", QpType::kUc, true, 8},
                                           Blast{"UcLarge", QpType::kUc, false, 10'000}),
                         [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace verbena::device::testing
