// SPDX-License-Identifier: Apache-2.0
// Where devices differ, and what was decided here: as a ConnectX and rxe do
// (docs/verbs-coverage.md, "Where devices differ").
#include <cerrno>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class Conformance : public VerbsPair {
 protected:
  alignas(64) std::array<uint8_t, 256> near_{};
  alignas(64) std::array<uint8_t, 256> far_{};

  static ibv_send_wr bind(ibv_mw* mw, uint32_t rkey, ibv_mr* mr, void* at, uint64_t bytes) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = {.mr = mr,
                            .addr = address(at),
                            .length = bytes,
                            .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    return wr;
  }
};

TEST_F(Conformance, ARegionOfNoBytes) {
  const auto pair = make_pair();
  ibv_mr* const mr = reg(far_.data(), 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->length, 0u);
  const ibv_mr* const local = reg(near_.data(), near_.size());
  ibv_sge none = sge_of(near_.data(), 0, local);
  EXPECT_EQ(run(pair[0], rdma(IBV_WR_RDMA_WRITE, none, address(far_.data()), mr->rkey)),
            IBV_WC_SUCCESS);
  ibv_sge byte = sge_of(near_.data(), 1, local);
  EXPECT_EQ(run(pair[0], rdma(IBV_WR_RDMA_WRITE, byte, address(far_.data()), mr->rkey)),
            IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Conformance, ASharedReceiveQueueOfAnotherDomain) {
  ibv_pd* const other = ibv_alloc_pd(context_);
  ibv_srq_init_attr wish{};
  wish.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(other, &wish);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq;
  init.cap = {4, 0, 1, 0, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr) << std::strerror(errno);
  connect(qp, qp->qp_num);
  // Its lists name keys of its own domain; those of the queue pair's are of no use there.
  ibv_mr* const theirs =
      ibv_reg_mr_iova2(other, far_.data(), far_.size(), address(far_.data()), kAllAccess);
  ibv_mr* const ours = reg(near_.data(), near_.size());
  near_.fill(9);
  ibv_sge to = sge_of(far_.data(), 64, theirs);
  ibv_recv_wr recv{};
  recv.wr_id = 7;
  recv.sg_list = &to;
  recv.num_sge = 1;
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
  ibv_sge from = sge_of(near_.data(), 64, ours);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.sg_list = &from;
  send.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &send, &bad), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(far_[63], 9);
  to = sge_of(near_.data() + 128, 64, ours);
  ASSERT_EQ(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
  ASSERT_EQ(ibv_post_send(qp, &send, &bad), 0);
  EXPECT_NE(completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(near_[128], 9) << "as it was";
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_dereg_mr(theirs), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(Conformance, AWindowOfType2HasItsNewKeyOnceTheBindIsPosted) {
  const auto pair = make_pair(IBV_QP_EX_WITH_BIND_MW);
  ibv_mr* const mr = reg(far_.data(), far_.size());
  const ibv_mr* const local = reg(near_.data(), near_.size());
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const uint32_t index = mw->rkey >> 8;
  ibv_sge sge = sge_of(near_.data(), 8, local);
  const auto write = [&] {
    return run(pair[0], rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data()), mw->rkey));
  };
  // Of what the program chooses, the last eight bits alone count.
  EXPECT_EQ(run(pair[1], bind(mw, 0x1234, mr, far_.data(), 64)), IBV_WC_SUCCESS);
  EXPECT_EQ(mw->rkey, (index << 8) | 0x34);
  EXPECT_EQ(write(), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), EBUSY) << "a window is bound to it";
  EXPECT_EQ(write(), IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = mw->rkey;
  EXPECT_EQ(run(pair[1], invalidate), IBV_WC_SUCCESS);

  // One of a chain, and by ibv_wr_*.
  ibv_send_wr chained = bind(mw, 0x35, mr, far_.data(), 64);
  invalidate.invalidate_rkey = (index << 8) | 0x35;
  chained.next = &invalidate;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair[1], &chained, &bad), 0);
  EXPECT_EQ(mw->rkey, (index << 8) | 0x35);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(pair[1]);
  const ibv_mw_bind_info info = chained.bind_mw.bind_info;
  ibv_wr_start(work);
  ibv_wr_bind_mw(work, mw, 0x36, &info);
  ibv_wr_abort(work);
  EXPECT_EQ(mw->rkey, (index << 8) | 0x35) << "nothing was posted";
  ibv_wr_start(work);
  work->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_bind_mw(work, mw, 0x37, &info);
  ASSERT_EQ(ibv_wr_complete(work), 0);
  EXPECT_EQ(mw->rkey, (index << 8) | 0x37);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
  EXPECT_EQ(write(), IBV_WC_SUCCESS);

  // A SEND of the peer's invalidates it.
  ibv_recv_wr recv{};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_recv(pair[1], &recv, &bad_recv), 0);
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND_WITH_INV;
  send.invalidate_rkey = mw->rkey;
  ASSERT_EQ(ibv_post_send(pair[0], &send, &bad), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_NE(wc.wc_flags & IBV_WC_WITH_INV, 0u);
  EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Conformance, ADomainWithAddressHandlesIsBusy) {
  ibv_pd* const pd = ibv_alloc_pd(context_);
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.grh.dgid), 0);
  ibv_ah* const ah = ibv_create_ah(pd, &attr);
  ibv_ah* const second = ibv_create_ah(pd, &attr);
  ASSERT_NE(ah, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(second), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

// The local list of a WRITE is read before anything is sent; that of a READ or an atomic is written
// when the answer comes.
TEST_F(Conformance, WhichOfTwoBadKeysIsTheError) {
  const ibv_mr* const local = reg(near_.data(), near_.size());
  const ibv_mr* const remote = reg(far_.data(), far_.size());
  ibv_sge bad_list = sge_of(near_.data(), 8, local);
  bad_list.lkey = (local->lkey + 10) * 5;
  const uint32_t bad_rkey = (remote->rkey + 10) * 5;
  struct Case {
    ibv_wr_opcode op;
    bool bad_peer;
    ibv_wc_status status;
  };
  constexpr std::array<Case, 5> kCases{{{IBV_WR_RDMA_WRITE, true, IBV_WC_LOC_PROT_ERR},
                                        {IBV_WR_RDMA_READ, true, IBV_WC_REM_ACCESS_ERR},
                                        {IBV_WR_RDMA_READ, false, IBV_WC_LOC_PROT_ERR},
                                        {IBV_WR_ATOMIC_FETCH_AND_ADD, true, IBV_WC_REM_ACCESS_ERR},
                                        {IBV_WR_ATOMIC_FETCH_AND_ADD, false, IBV_WC_LOC_PROT_ERR}}};
  for (const auto& [op, bad_peer, status] : kCases) {
    const auto pair = make_pair();
    const uint32_t rkey = bad_peer ? bad_rkey : remote->rkey;
    ibv_send_wr wr = rdma(op, bad_list, address(far_.data()), rkey);
    if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {
          .remote_addr = address(far_.data()), .compare_add = 3, .swap = 0, .rkey = rkey};
    }
    EXPECT_EQ(run(pair[0], wr), status) << op << ' ' << bad_peer;
  }
  EXPECT_EQ(far_[0], 3) << "the atomic is carried out, as on a ConnectX";
  EXPECT_EQ(near_[0], 0);
}

TEST_F(Conformance, WhatCannotBeSentIsRefusedAtOnce) {
  ibv_qp* const qp = make_qp();
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad), EINVAL) << "RESET";
  EXPECT_EQ(bad, &send);
  ibv_recv_wr recv{};
  ibv_recv_wr* bad_recv = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), EINVAL) << "RESET";
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  EXPECT_EQ(ibv_post_send(qp, &send, &bad), EINVAL) << "INIT";
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), 0) << "INIT";
}

}  // namespace
}  // namespace verbena::verbs
