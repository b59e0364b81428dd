// SPDX-License-Identifier: Apache-2.0
// ibv_wr_*: the limits of a queue pair hold here as they do for ibv_post_send.
#include <array>
#include <cerrno>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class WorkCalls : public VerbsPair {
 protected:
  static constexpr uint64_t kOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;

  // Connected to itself.
  ibv_qp* make_loop(uint32_t max_send_sge, uint32_t max_inline) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = max_send_sge,
                .max_recv_sge = 1,
                .max_inline_data = max_inline};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd_;
    init.send_ops_flags = kOperations;
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    qps_.push_back(qp);
    connect(qp, qp->qp_num);
    return qp;
  }
};

TEST_F(WorkCalls, InlineDataNeedsNoScatterGatherEntry) {
  ibv_qp* const qp = make_loop(0, 32);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(qp);
  std::array<char, 32> to{};
  const ibv_mr* const mr = reg(to.data(), to.size());
  char whole[] = "inline data";
  ibv_wr_start(work);
  work->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(work, mr->rkey, address(to.data()));
  ibv_wr_set_inline_data(work, whole, sizeof whole);
  ASSERT_EQ(ibv_wr_complete(work), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(to.data(), whole);

  char first[] = {'t', 'w', 'o', ' '};
  char second[] = "parts";
  const ibv_data_buf parts[] = {{first, sizeof first}, {second, sizeof second}};
  ibv_wr_start(work);
  ibv_wr_rdma_write(work, mr->rkey, address(to.data()));
  ibv_wr_set_inline_data_list(work, 2, parts);
  ASSERT_EQ(ibv_wr_complete(work), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(to.data(), "two parts");

  // ibv_post_send, too.
  ibv_sge sge{address(whole), sizeof whole, 0};
  ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, sge, address(to.data()), mr->rkey);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(run(qp, wr), IBV_WC_SUCCESS);
  EXPECT_STREQ(to.data(), whole);
}

TEST_F(WorkCalls, AListLongerThanTheQueuePairsIsRefused) {
  ibv_qp* const qp = make_loop(2, 32);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(qp);
  std::array<char, 32> bytes{};
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  ibv_sge list[3];
  for (ibv_sge& sge : list) sge = sge_of(bytes.data(), 4, mr);
  const auto write = [&](size_t entries) {
    ibv_wr_rdma_write(work, mr->rkey, address(bytes.data() + 16));
    ibv_wr_set_sge_list(work, entries, list);
  };
  // It would fit among the entries of all requests together.
  ibv_wr_start(work);
  write(3);
  EXPECT_EQ(ibv_wr_complete(work), EINVAL);
  // All or none, also when the second is the wrong one.
  ibv_wr_start(work);
  work->wr_flags = IBV_SEND_SIGNALED;
  write(2);
  write(3);
  EXPECT_EQ(ibv_wr_complete(work), EINVAL);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, list[0], address(bytes.data() + 16), mr->rkey);
  wr.sg_list = list;
  wr.num_sge = 3;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
  // What fits is sent.
  ibv_wr_start(work);
  work->wr_flags = IBV_SEND_SIGNALED;
  write(2);
  ASSERT_EQ(ibv_wr_complete(work), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
}

// ibv_post_send names the first that was not posted; those before it are. Chains are posted sixteen
// at a time: also across that.
TEST_F(WorkCalls, TheOneOfAChainThatTheDeviceRefusesIsNamed) {
  ibv_qp* const qp = make_qp(64);
  connect(qp, qp->qp_num);
  std::array<char, 32> bytes{};
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  std::array<ibv_sge, 3> list;
  list.fill(sge_of(bytes.data(), 4, mr));
  for (const size_t refused : {0, 1, 2, 15, 16, 17, 19}) {
    std::array<ibv_send_wr, 20> chain{};
    for (size_t i = 0; i < chain.size(); ++i) {
      chain[i] = rdma(IBV_WR_RDMA_WRITE, list[0], address(bytes.data() + 16), mr->rkey);
      chain[i].wr_id = i;
      chain[i].sg_list = list.data();
      // The queue pair has two entries: the library does not know, the device does.
      chain[i].num_sge = i == refused ? 3 : 1;
      if (i + 1 < chain.size()) chain[i].next = &chain[i + 1];
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, chain.data(), &bad), EINVAL);
    EXPECT_EQ(bad, &chain[refused]);
    for (size_t i = 0; i < refused; ++i) {
      const ibv_wc wc = completion();
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, i);
    }
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0) << "nothing behind it was posted";
  }
}

// So does ibv_post_recv, across the sixty-four that are posted at a time, and ibv_post_srq_recv.
TEST_F(WorkCalls, TheOneOfAChainOfReceivesThatIsRefusedIsNamed) {
  std::array<char, 8> bytes{};
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  std::array<ibv_sge, 3> list;
  list.fill(sge_of(bytes.data(), 4, mr));
  constexpr int kNotAList = -1;
  std::array<ibv_recv_wr, 130> chain{};
  const auto refuse_one = [&](size_t refused, int entries) {
    for (size_t i = 0; i < chain.size(); ++i) {
      chain[i] = {.wr_id = i,
                  .next = i + 1 < chain.size() ? &chain[i + 1] : nullptr,
                  .sg_list = list.data(),
                  .num_sge = i == refused ? entries : 1};
    }
  };
  for (const size_t refused : {0, 1, 63, 64, 65, 127, 128, 129}) {
    for (const int entries : {kNotAList, 3}) {  // the library's to refuse, the device's
      SCOPED_TRACE(refused);
      refuse_one(refused, entries);
      ibv_srq_init_attr wish{};
      wish.attr = {.max_wr = 256, .max_sge = 2, .srq_limit = 0};
      ibv_srq* const srq = ibv_create_srq(pd_, &wish);
      ASSERT_NE(srq, nullptr);
      ibv_recv_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_srq_recv(srq, chain.data(), &bad), EINVAL);
      EXPECT_EQ(bad, &chain[refused]);
      EXPECT_EQ(ibv_destroy_srq(srq), 0);

      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = cq_;
      init.cap = {.max_send_wr = 1,
                  .max_recv_wr = 256,
                  .max_send_sge = 1,
                  .max_recv_sge = 2,
                  .max_inline_data = 0};
      init.qp_type = IBV_QPT_RC;
      ibv_qp* const qp = ibv_create_qp(pd_, &init);
      ASSERT_NE(qp, nullptr);
      connect(qp, qp->qp_num);
      bad = nullptr;
      EXPECT_EQ(ibv_post_recv(qp, chain.data(), &bad), EINVAL);
      EXPECT_EQ(bad, &chain[refused]);
      // Those before it were posted, in order, and nothing behind it.
      ASSERT_EQ(ibv_resize_cq(cq_, 256), 0);
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_ERR;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
      for (size_t i = 0; i < refused; ++i) {
        const ibv_wc wc = completion();
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(wc.wr_id, i);
      }
      ibv_wc wc;
      EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
  }
}

TEST_F(WorkCalls, WithoutEntriesNoListIsTaken) {
  ibv_qp* const qp = make_loop(0, 0);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(qp);
  std::array<char, 8> bytes{};
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  ibv_wr_start(work);
  ibv_wr_send(work);
  ibv_wr_set_sge(work, mr->lkey, address(bytes.data()), 4);
  EXPECT_EQ(ibv_wr_complete(work), EINVAL);
  ibv_wr_start(work);
  ibv_wr_send(work);
  ibv_wr_set_inline_data(work, bytes.data(), 1);
  EXPECT_EQ(ibv_wr_complete(work), EINVAL) << "more than max_inline_data";
}

}  // namespace
}  // namespace verbena::verbs
