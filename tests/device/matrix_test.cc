// SPDX-License-Identifier: Apache-2.0
// Every operation of every service over UDP on loopback, data compared at both ends: between two
// processes and inside one, IPv4 and IPv6, every path MTU, sizes around its multiples, 1 to 1,024
// queue pairs, first PSNs that wrap. The cases cover each pair of choices and the corners.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::Completion;
using transport::Mtu;
using transport::QpType;
using transport::SendOp;
using transport::WcOpcode;

constexpr uint64_t kMiB = 1 << 20;

struct Step {
  SendOp op = SendOp::kSend;
  uint32_t bytes = 0;
  uint32_t qp = 0;
  uint64_t seed = 0;
  // Every alignment at both ends comes by.
  [[nodiscard]] uint64_t near_at() const { return 2 * kGuardBytes + seed % 8; }
  [[nodiscard]] uint64_t far_at() const { return 2 * kGuardBytes + seed / 8 % 8; }
  [[nodiscard]] uint64_t word_at() const { return 2 * kGuardBytes + 8 * (seed % 8); }
  [[nodiscard]] uint32_t imm() const { return static_cast<uint32_t>(0x80000000u + seed); }
  [[nodiscard]] bool is_send() const {
    return op == SendOp::kSend || op == SendOp::kSendImm || op == SendOp::kSendInvalidate;
  }
  [[nodiscard]] bool is_atomic() const {
    return op == SendOp::kCompareSwap || op == SendOp::kFetchAdd;
  }
  [[nodiscard]] std::string name() const {
    return "operation " + std::to_string(static_cast<int>(op)) + " of " + std::to_string(bytes) +
           " bytes on queue pair " + std::to_string(qp);
  }
};

[[nodiscard]] std::vector<uint32_t> sizes(const PairOptions& setup) {
  const uint32_t mtu = transport::mtu_bytes(setup.mtu);
  std::vector<uint32_t> list{0,       1,           2,       3,           mtu - 1,      mtu,
                             mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 17 * mtu + 5, 65'535,
                             65'536,  65'537};
  // The sanitizers take their time for each byte.
  if (!kSanitized || (!kThreadSanitizer && setup.mtu == Mtu::k4096)) list.push_back(kMiB);
  return list;
}

[[nodiscard]] std::vector<Step> steps(const PairOptions& setup, std::vector<SendOp> moving,
                                      std::vector<SendOp> atomic) {
  std::vector<Step> list;
  for (const uint32_t bytes : sizes(setup)) {
    for (const SendOp op : moving) list.push_back({op, bytes});
  }
  for (int i = 0; i < 4; ++i) {
    for (const SendOp op : atomic) list.push_back({op, 8});
  }
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].seed = i + 1;
    list[i].qp = static_cast<uint32_t>(i % setup.queue_pairs);
  }
  return list;
}

const std::vector<SendOp> kRcMoving{SendOp::kSend,  SendOp::kSendImm,  SendOp::kSendInvalidate,
                                    SendOp::kWrite, SendOp::kWriteImm, SendOp::kRead};
const std::vector<SendOp> kRcAtomic{SendOp::kCompareSwap, SendOp::kFetchAdd};

// A type 2 window over all of the far memory, for the near end to invalidate.
[[nodiscard]] RKey bind_window(End& far, uint32_t qp) {
  const auto window = far.context().alloc_mw(far.pd(), memory::WindowType::kType2);
  must(window ? 0 : window.error(), "alloc_mw");
  transport::SendRequest request;
  request.op = SendOp::kBindWindow;
  request.window = *window;
  request.bind = {.region = far.mr().lkey,
                  .addr = reinterpret_cast<uint64_t>(far.bytes(0, 1).data()),
                  .length = kMiB,
                  .access = memory::kRemoteWrite,
                  .tag = 0x5a};
  must(far.context().post_send(far.qp(qp), request), "bind");
  (void)far.sent();
  return RKey((window->value & ~0xffu) | 0x5a);
}

// --- one step at the target: what it prepares, and what it finds afterwards

[[nodiscard]] RKey prepare(End& far, const Step& step) {
  if (step.is_atomic()) {
    guard(far.bytes(step.word_at(), 8));
    std::memcpy(far.bytes(step.word_at(), 8).data(), &step.seed, 8);
    return {};
  }
  const auto range = far.bytes(step.far_at(), step.bytes);
  guard(range);
  if (step.op == SendOp::kRead) fill(range, step.seed);
  if (step.is_send()) far.post_recv(step.qp, step.far_at(), step.bytes, step.seed);
  if (step.op == SendOp::kWriteImm) far.post_recv(step.qp, 0, 0, step.seed);
  return step.op == SendOp::kSendInvalidate ? bind_window(far, step.qp) : RKey();
}

void check_receive(End& far, const Step& step, RKey window) {
  const Completion completion = far.received();
  EXPECT_EQ(completion.wr_id, step.seed);
  EXPECT_EQ(completion.byte_len, step.bytes);
  EXPECT_EQ(completion.qpn, far.qp(step.qp).qpn);
  EXPECT_EQ(completion.opcode, step.is_send() ? WcOpcode::kRecv : WcOpcode::kRecvWriteImm);
  if (step.op == SendOp::kSendImm || step.op == SendOp::kWriteImm) {
    EXPECT_EQ(completion.flags, transport::kWcWithImm);
    EXPECT_EQ(completion.imm_or_rkey, step.imm());
  } else if (step.op == SendOp::kSendInvalidate) {
    EXPECT_EQ(completion.flags, transport::kWcWithInvalidate);
    EXPECT_EQ(completion.imm_or_rkey, window.value);
    EXPECT_EQ(far.context().dealloc_mw(window), 0);
  } else {
    EXPECT_EQ(completion.flags, 0u);
  }
}

void check_far(End& far, const Step& step, RKey window) {
  if (step.is_send() || step.op == SendOp::kWriteImm) check_receive(far, step, window);
  if (step.is_atomic()) {
    uint64_t now = 0;
    std::memcpy(&now, far.bytes(step.word_at(), 8).data(), 8);
    EXPECT_EQ(now, step.op == SendOp::kFetchAdd ? step.seed + 0x100000001 : ~step.seed);
    EXPECT_EQ(trespass(far.bytes(step.word_at(), 8)), "");
    return;
  }
  EXPECT_EQ(differs(far.bytes(step.far_at(), step.bytes), step.seed), "");
  EXPECT_EQ(trespass(far.bytes(step.far_at(), step.bytes)), "");
}

// --- and at the initiator

void check_near(End& near, const Step& step) {
  const uint64_t at = step.is_atomic() ? step.word_at() : step.near_at();
  if (step.op == SendOp::kRead) {
    EXPECT_EQ(differs(near.bytes(at, step.bytes), step.seed), "");
  } else if (step.is_atomic()) {
    uint64_t before = 0;
    std::memcpy(&before, near.bytes(at, 8).data(), 8);
    EXPECT_EQ(before, step.seed);
  }
  EXPECT_EQ(trespass(near.bytes(at, step.bytes)), "");
}

void act(End& near, const Step& step, RKey window) {
  const uint64_t at = step.is_atomic() ? step.word_at() : step.near_at();
  guard(near.bytes(at, step.bytes));
  if (step.op != SendOp::kRead && !step.is_atomic()) fill(near.bytes(at, step.bytes), step.seed);
  const bool add = step.op == SendOp::kFetchAdd;
  near.post(step.qp, {.op = step.op,
                      .local = at,
                      .bytes = step.bytes,
                      .remote = step.is_atomic() ? step.word_at() : step.far_at(),
                      .imm = step.imm(),
                      .invalidate = window,
                      .compare_add = add ? 0x100000001 : step.seed,
                      .swap = ~step.seed,
                      .wr_id = step.seed});
  const Completion completion = near.sent();
  EXPECT_EQ(completion.wr_id, step.seed);
  check_near(near, step);
}

void walk_near(End& near, const std::vector<Step>& list) {
  for (const Step& step : list) {
    SCOPED_TRACE(step.name());
    const auto window = near.hear<RKey>();
    act(near, step, window);
    near.barrier();
  }
}

void walk_far(End& far, const std::vector<Step>& list) {
  for (const Step& step : list) {
    SCOPED_TRACE(step.name());
    const RKey window = prepare(far, step);
    far.tell(window);
    // Unreliable: the near end's completion says nothing about us, an empty message behind it does.
    far.barrier();
    check_far(far, step, window);
  }
}

// --- all queue pairs at once

constexpr uint64_t kSlice = 1280;
constexpr uint32_t kSliceBytes = 1000;
constexpr uint64_t kWrites = 2 * kMiB;
constexpr uint64_t kSends = 4 * kMiB;
constexpr uint64_t kReads = 6 * kMiB;
constexpr uint64_t kSum = kMiB;

[[nodiscard]] uint64_t slice(uint64_t area, uint32_t qp) {
  return area + kGuardBytes + kSlice * qp;
}

void all_near(End& near) {
  const uint32_t n = near.setup().queue_pairs;
  for (uint32_t q = 0; q < n; ++q) {
    fill(near.bytes(slice(kWrites, q), kSliceBytes), 10'000 + q);
    fill(near.bytes(slice(kSends, q), kSliceBytes), 20'000 + q);
    guard(near.bytes(slice(kReads, q), kSliceBytes));
  }
  near.barrier();
  for (uint32_t q = 0; q < n; ++q) {
    const auto each = [&](SendOp op, uint64_t area) {
      near.post(
          q, {.op = op, .local = slice(area, q), .bytes = kSliceBytes, .remote = slice(area, q)});
    };
    each(SendOp::kWrite, kWrites);
    each(SendOp::kRead, kReads);
    each(SendOp::kSend, kSends);
    near.post(q, {.op = SendOp::kFetchAdd,
                  .local = kSum + 8 * q,
                  .bytes = 8,
                  .remote = kSum,
                  .compare_add = 1});
  }
  near.good(near.send_cq(), 4 * uint64_t{n});
  for (uint32_t q = 0; q < n; ++q) {
    EXPECT_EQ(differs(near.bytes(slice(kReads, q), kSliceBytes), 30'000 + q), "") << q;
    EXPECT_EQ(trespass(near.bytes(slice(kReads, q), kSliceBytes)), "") << q;
  }
  near.barrier();
}

void all_far(End& far) {
  const uint32_t n = far.setup().queue_pairs;
  std::memset(far.bytes(kSum, 8).data(), 0, 8);
  for (uint32_t q = 0; q < n; ++q) {
    guard(far.bytes(slice(kWrites, q), kSliceBytes));
    guard(far.bytes(slice(kSends, q), kSliceBytes));
    fill(far.bytes(slice(kReads, q), kSliceBytes), 30'000 + q);
    far.post_recv(q, slice(kSends, q), kSliceBytes);
  }
  far.barrier();
  far.good(far.recv_cq(), n);
  far.barrier();
  for (uint32_t q = 0; q < n; ++q) {
    EXPECT_EQ(differs(far.bytes(slice(kWrites, q), kSliceBytes), 10'000 + q), "") << q;
    EXPECT_EQ(differs(far.bytes(slice(kSends, q), kSliceBytes), 20'000 + q), "") << q;
    EXPECT_EQ(trespass(far.bytes(slice(kWrites, q), kSliceBytes)), "") << q;
    EXPECT_EQ(trespass(far.bytes(slice(kSends, q), kSliceBytes)), "") << q;
  }
  uint64_t sum = 0;
  std::memcpy(&sum, far.bytes(kSum, 8).data(), 8);
  EXPECT_EQ(sum, n);
}

// --- reliable connections

struct MatrixCase {
  bool one_process;
  bool ipv6;
  Mtu mtu;
  uint32_t queue_pairs;
  uint32_t first_psn;
};

constexpr uint32_t kWraps = 0xfffff0;

void PrintTo(const MatrixCase& c, std::ostream* out) {
  *out << (c.one_process ? "one process" : "two processes") << (c.ipv6 ? ", IPv6" : ", IPv4")
       << ", MTU " << transport::mtu_bytes(c.mtu) << ", " << c.queue_pairs << " queue pairs, PSN "
       << c.first_psn;
}

[[nodiscard]] PairOptions setup_of(const MatrixCase& c) {
  return {.one_process = c.one_process,
          .ipv6 = c.ipv6,
          .mtu = c.mtu,
          .queue_pairs = c.queue_pairs,
          .first_psn = c.first_psn,
          .memory_bytes = 8 * kMiB,
          .depth = 16};
}

class RcMatrix : public ::testing::TestWithParam<MatrixCase> {};

TEST_P(RcMatrix, EveryOperationOfEverySize) {
  const PairOptions setup = setup_of(GetParam());
  const auto list = steps(setup, kRcMoving, kRcAtomic);
  run_pair(
      setup,
      [&](End& near) {
        walk_near(near, list);
        all_near(near);
        EXPECT_EQ(near.overflow(), 0u);
      },
      [&](End& far) {
        walk_far(far, list);
        all_far(far);
        EXPECT_EQ(far.overflow(), 0u);
      });
}

INSTANTIATE_TEST_SUITE_P(Pairwise, RcMatrix,
                         ::testing::Values(MatrixCase{false, false, Mtu::k256, 1, 0},
                                           MatrixCase{true, true, Mtu::k256, 1024, kWraps},
                                           MatrixCase{false, true, Mtu::k512, 16, kWraps},
                                           MatrixCase{true, false, Mtu::k512, 1, 0},
                                           MatrixCase{false, true, Mtu::k1024, 1, 0},
                                           MatrixCase{true, false, Mtu::k1024, 64, kWraps},
                                           MatrixCase{false, false, Mtu::k2048, 64, kWraps},
                                           MatrixCase{true, true, Mtu::k2048, 16, 0},
                                           MatrixCase{false, false, Mtu::k4096, 1024, 0},
                                           MatrixCase{true, true, Mtu::k4096, 64, kWraps},
                                           MatrixCase{false, true, Mtu::k4096, 1, kWraps}));

// --- one message as long as memory allows a test

TEST(Large, OneMessage) {
  const uint32_t bytes = (kThreadSanitizer ? 4 : kSanitized ? 16 : 1024) * kMiB;
  const PairOptions setup{.memory_bytes = bytes + kGuardBytes * 4};
  const uint64_t at = 2 * kGuardBytes;
  run_pair(
      setup,
      [&](End& near) {
        fill(near.bytes(at, bytes), 1);
        near.barrier();
        near.post(0, {.op = SendOp::kWrite, .local = at, .bytes = bytes, .remote = at});
        (void)near.sent();
        guard(near.bytes(at, bytes));
        near.barrier();
        near.barrier();  // the far end has filled its memory anew
        near.post(0, {.op = SendOp::kRead, .local = at, .bytes = bytes, .remote = at});
        (void)near.sent();
        EXPECT_EQ(differs(near.bytes(at, bytes), 2), "");
        EXPECT_EQ(trespass(near.bytes(at, bytes)), "");
      },
      [&](End& far) {
        guard(far.bytes(at, bytes));
        far.barrier();
        far.barrier();
        EXPECT_EQ(differs(far.bytes(at, bytes), 1), "");
        EXPECT_EQ(trespass(far.bytes(at, bytes)), "");
        fill(far.bytes(at, bytes), 2);
        far.barrier();
      });
}

// --- unreliable connections: on one host nothing is lost

class UcMatrix : public ::testing::TestWithParam<MatrixCase> {};

TEST_P(UcMatrix, EveryOperationOfEverySize) {
  PairOptions setup = setup_of(GetParam());
  setup.type = QpType::kUc;
  const auto list =
      steps(setup, {SendOp::kSend, SendOp::kSendImm, SendOp::kWrite, SendOp::kWriteImm}, {});
  constexpr uint64_t kMarker = ~uint64_t{0};
  run_pair(
      setup,
      [&](End& near) {
        for (const Step& step : list) {
          SCOPED_TRACE(step.name());
          (void)near.hear<RKey>();
          act(near, step, {});
          near.post(step.qp, {.wr_id = kMarker});
          (void)near.sent();
          near.barrier();
        }
      },
      [&](End& far) {
        for (const Step& step : list) {
          SCOPED_TRACE(step.name());
          (void)prepare(far, step);
          far.post_recv(step.qp, 0, 0, kMarker);
          far.tell(RKey());
          far.barrier();
          if (step.op != SendOp::kWrite) check_receive(far, step, {});
          EXPECT_EQ(far.received().wr_id, kMarker);
          EXPECT_EQ(differs(far.bytes(step.far_at(), step.bytes), step.seed), "");
          EXPECT_EQ(trespass(far.bytes(step.far_at(), step.bytes)), "");
        }
        EXPECT_EQ(far.overflow(), 0u);
      });
}

INSTANTIATE_TEST_SUITE_P(Pairwise, UcMatrix,
                         ::testing::Values(MatrixCase{false, false, Mtu::k256, 16, kWraps},
                                           MatrixCase{true, true, Mtu::k512, 1, 0},
                                           MatrixCase{false, true, Mtu::k1024, 64, kWraps},
                                           MatrixCase{true, false, Mtu::k2048, 16, 0},
                                           MatrixCase{false, true, Mtu::k4096, 1, 0},
                                           MatrixCase{true, false, Mtu::k4096, 1, kWraps}));

// --- datagrams

class UdMatrix : public ::testing::TestWithParam<MatrixCase> {};

TEST_P(UdMatrix, EverySizeWithItsHeader) {
  constexpr uint32_t kGrh = 40;
  PairOptions setup = setup_of(GetParam());
  setup.type = QpType::kUd;
  std::vector<Step> list;
  for (const uint32_t bytes : {0u, 1u, 2u, 3u, 4u, 255u, 256u, 257u, 1024u, 4093u, 4095u, 4096u}) {
    for (const SendOp op : {SendOp::kSend, SendOp::kSendImm}) {
      const uint64_t seed = list.size() + 1;
      list.push_back({op, bytes, static_cast<uint32_t>(seed % setup.queue_pairs), seed});
    }
  }
  run_pair(
      setup,
      [&](End& near) {
        for (const Step& step : list) {
          SCOPED_TRACE(step.name());
          near.barrier();
          act(near, step, {});
          near.barrier();
        }
      },
      [&](End& far) {
        for (const Step& step : list) {
          SCOPED_TRACE(step.name());
          const auto range = far.bytes(step.far_at(), kGrh + step.bytes);
          guard(range);
          far.post_recv(step.qp, step.far_at(), kGrh + step.bytes, step.seed);
          far.barrier();
          const Completion completion = far.received();
          const bool imm = step.op == SendOp::kSendImm;
          EXPECT_EQ(completion.wr_id, step.seed);
          EXPECT_EQ(completion.byte_len, kGrh + step.bytes);
          EXPECT_EQ(completion.flags, transport::kWcGrh | (imm ? transport::kWcWithImm : 0u));
          EXPECT_EQ(completion.imm_or_rkey, imm ? step.imm() : 0);
          EXPECT_EQ(completion.source_qpn, far.remote_qpn(step.qp));
          const wire::Gid self = loopback(setup.ipv6);
          EXPECT_EQ(std::memcmp(range.data() + 8, self.bytes.data(), 16), 0);
          EXPECT_EQ(std::memcmp(range.data() + 24, self.bytes.data(), 16), 0);
          EXPECT_EQ(differs(range.subspan(kGrh), step.seed), "");
          EXPECT_EQ(trespass(range), "");
          far.barrier();
        }
        EXPECT_EQ(far.overflow(), 0u);
      });
}

INSTANTIATE_TEST_SUITE_P(Pairwise, UdMatrix,
                         ::testing::Values(MatrixCase{false, false, Mtu::k4096, 1, 0},
                                           MatrixCase{true, false, Mtu::k4096, 64, kWraps},
                                           MatrixCase{false, true, Mtu::k4096, 16, kWraps},
                                           MatrixCase{true, true, Mtu::k4096, 1, 0}));

}  // namespace
}  // namespace verbena::device::testing
