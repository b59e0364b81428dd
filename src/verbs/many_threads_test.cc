// SPDX-License-Identifier: Apache-2.0
// Many more threads than cores post at once, each on a queue pair of its own, and one polls.
// Whoever has the device's lock must get a core, and packets must be received meanwhile, or retries
// run out.
#include <atomic>
#include <latch>
#include <thread>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class ManyThreads : public VerbsPair {};

TEST_F(ManyThreads, PostAtOnce) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kThreads = 100;
#else
  constexpr size_t kThreads = 1000;
#endif
  constexpr int kMessages = 16;  // as many as the fixture's queue pairs have room for
  constexpr uint32_t kBytes = 1024;
  constexpr auto kPatience = std::chrono::seconds(60);
  ASSERT_EQ(ibv_resize_cq(cq_, static_cast<int>(2 * kThreads * kMessages)), 0);
  std::vector<uint8_t> bytes(size_t{2} * kBytes);
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  ibv_sge from = sge_of(bytes.data(), kBytes, mr);
  ibv_sge to = sge_of(bytes.data() + kBytes, kBytes, mr);
  std::vector<ibv_qp*> senders;
  for (size_t i = 0; i < kThreads; ++i) {
    const auto pair = make_pair();
    senders.push_back(pair[0]);
    ibv_recv_wr recv{};
    recv.sg_list = &to;
    recv.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    for (int n = 0; n < kMessages; ++n) ASSERT_EQ(ibv_post_recv(pair[1], &recv, &bad), 0);
  }
  std::latch start(kThreads);
  std::atomic<int> refused{0};
  std::vector<std::jthread> threads;
  for (ibv_qp* const qp : senders) {
    threads.emplace_back([&, qp] {
      ibv_send_wr send{};
      send.opcode = IBV_WR_SEND;
      send.send_flags = IBV_SEND_SIGNALED;
      send.sg_list = &from;
      send.num_sge = 1;
      ibv_send_wr* bad = nullptr;
      start.arrive_and_wait();
      for (int n = 0; n < kMessages; ++n) refused += ibv_post_send(qp, &send, &bad) != 0 ? 1 : 0;
    });
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  size_t good = 0;
  while (good < 2 * kThreads * kMessages && std::chrono::steady_clock::now() < end) {
    std::array<ibv_wc, 16> some;
    const int n = ibv_poll_cq(cq_, some.size(), some.data());
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(some[static_cast<size_t>(i)].status, IBV_WC_SUCCESS) << "after " << good;
      ++good;
    }
  }
  EXPECT_EQ(good, 2 * kThreads * kMessages);
  threads.clear();
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace verbena::verbs
