// SPDX-License-Identifier: Apache-2.0
// Any call from any thread, through the C interface: for ThreadSanitizer first of all.
#include <atomic>
#include <thread>
#include <vector>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kThreadRounds = 50;
#else
constexpr int kThreadRounds = 300;
#endif

class VerbsThreads : public VerbsPair {};

// Queues come and go on one channel: it knows at the end that it has none.
TEST_F(VerbsThreads, ShareAChannel) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kThreadRounds; ++i) {
        ibv_cq* const cq = ibv_create_cq(context_, 4, nullptr, channel, 0);
        ASSERT_NE(cq, nullptr);
        EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
        EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(channel->refcnt, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// Each posts on a queue pair of its own and they share the completion queue; one waits for events.
TEST_F(VerbsThreads, PostPollAndWaitTogether) {
  constexpr int kWorkers = 3;
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ASSERT_NE(channel, nullptr);
  ibv_cq* const own = cq_;
  cq_ = ibv_create_cq(context_, 256, nullptr, channel, 0);
  ASSERT_NE(cq_, nullptr);
  std::vector<uint8_t> memory(4096 * 2 * kWorkers);
  ibv_mr* const mr = reg(memory.data(), memory.size());
  std::vector<std::array<ibv_qp*, 2>> pairs;
  for (int i = 0; i < kWorkers; ++i) pairs.push_back(make_pair());

  std::array<std::atomic<int>, kWorkers> done{};
  std::atomic<int> wrong = 0;
  std::atomic<bool> stop = false;
  const auto reap = [&] {
    ibv_wc wc{};
    if (ibv_poll_cq(cq_, 1, &wc) != 1) return;
    if (wc.status != IBV_WC_SUCCESS) ++wrong;
    ++done.at(wc.wr_id);
  };
  std::thread sleeper([&] {
    while (!stop) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
      ibv_ack_cq_events(cq, 1);
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      for (int i = 0; i < 4; ++i) reap();
    }
  });
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  std::vector<std::thread> workers;
  for (size_t w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      ibv_sge sge = sge_of(memory.data() + w * 8192, 4000, mr);
      for (int i = 0; i < kThreadRounds && wrong == 0; ++i) {
        ibv_send_wr wr = rdma(i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, sge,
                              address(memory.data() + w * 8192 + 4096), mr->rkey);
        wr.wr_id = w;
        ibv_send_wr* bad = nullptr;
        if (ibv_post_send(pairs[w][0], &wr, &bad) != 0) ++wrong;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (done.at(w) <= i && wrong == 0) {
          reap();
          if (std::chrono::steady_clock::now() > end) ++wrong;
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong, 0);
  stop = true;
  // A last event lets the sleeper go.
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(ibv_post_send(pairs[0][0], &wr, &bad), 0);
  sleeper.join();
  for (ibv_qp* const qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  EXPECT_EQ(ibv_destroy_cq(cq_), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  cq_ = own;
}

// Contexts come and go while others hold the device and make objects.
TEST_F(VerbsThreads, OpenAndClose) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kThreadRounds / 10; ++i) {
        ibv_context* const context = ibv_open_device(devices_[0]);
        ASSERT_NE(context, nullptr);
        ibv_pd* const pd = ibv_alloc_pd(context);
        ASSERT_NE(pd, nullptr);
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
        EXPECT_EQ(ibv_dealloc_pd(pd), 0);
        EXPECT_EQ(ibv_close_device(context), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace verbena::verbs
