// SPDX-License-Identifier: Apache-2.0
// A program that is wrong gets the errno of the man page, in its own process, and goes on.
#include <algorithm>
#include <cerrno>
#include <thread>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class BadUse : public VerbsPair {
 protected:
  // As a C program may.
  template <typename Enumeration>
  static void set_raw(Enumeration& to, uint32_t value) {
    static_assert(sizeof to == sizeof value);
    std::memcpy(&to, &value, sizeof value);
  }
  // The call gave no object, and why.
  template <typename T>
  static int why_not(T* object) {
    EXPECT_EQ(object, nullptr);
    return object == nullptr ? errno : 0;
  }
};

TEST_F(BadUse, WhatWasDestroyedIsInvalid) {
  ibv_pd* const pd = ibv_alloc_pd(context_);
  ASSERT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), EINVAL);
  char byte = 0;
  EXPECT_EQ(why_not(ibv_reg_mr_iova2(pd, &byte, 1, 0, 0)), EINVAL);
  ibv_qp_init_attr init{};
  EXPECT_EQ(why_not(ibv_create_qp(pd, &init)), EINVAL);

  ibv_mr* const mr = take(reg(&byte, 1));
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL);

  ibv_cq* const cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  ibv_wc wc;
  EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 8), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), EINVAL);

  ibv_qp* const qp = make_qp();
  std::erase(qps_, qp);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ibv_send_wr send{};
  ibv_send_wr* bad_send = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad_send), EINVAL);
  EXPECT_EQ(bad_send, &send);
  ibv_recv_wr recv{};
  ibv_recv_wr* bad_recv = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
  ibv_qp_attr attr{};
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), EINVAL);
}

TEST_F(BadUse, AClosedContextTakesItsObjectsAlong) {
  const Leak leak;
  ibv_context* const other = ibv_open_device(devices_[0]);
  ASSERT_NE(other, nullptr);
  ibv_pd* const pd = ibv_alloc_pd(other);
  ibv_comp_channel* const channel = ibv_create_comp_channel(other);
  ibv_cq* const cq = ibv_create_cq(other, 4, nullptr, channel, 0);
  std::array<char, 64> bytes{};
  ibv_mr* const mr = ibv_reg_mr_iova2(pd, bytes.data(), bytes.size(), 0, IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(ibv_close_device(other), 0);
  EXPECT_EQ(ibv_close_device(other), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pd), EINVAL);
  EXPECT_EQ(why_not(ibv_alloc_pd(other)), EINVAL);
  // And nobody else was harmed.
  const auto pair = make_pair();
  ibv_mr* const ours = reg(bytes.data(), bytes.size());
  ibv_sge sge{reinterpret_cast<uintptr_t>(bytes.data()), 8, ours->lkey};
  ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, sge, sge.addr + 8, ours->rkey);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair[0], &wr, &bad), 0);
  EXPECT_EQ(completion().status, IBV_WC_SUCCESS);
}

TEST_F(BadUse, WhatIsInUseIsBusy) {
  ibv_qp* const qp = make_qp();
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(qp->state, IBV_QPS_RESET) << "and it goes on";
}

TEST_F(BadUse, NullWhereItMayNotBe) {
  EXPECT_EQ(why_not(ibv_alloc_pd(nullptr)), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(nullptr), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(nullptr), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(nullptr), EINVAL);
  EXPECT_EQ(ibv_close_device(nullptr), EINVAL);
  EXPECT_EQ(why_not(ibv_create_qp(pd_, nullptr)), EINVAL);
  EXPECT_EQ(why_not(ibv_create_srq(pd_, nullptr)), EINVAL);
  EXPECT_EQ(why_not(ibv_create_ah(pd_, nullptr)), EINVAL);
  EXPECT_EQ(ibv_query_device(context_, nullptr), EINVAL);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  EXPECT_EQ(why_not(ibv_create_qp(pd_, &init)), EINVAL) << "no completion queues";
}

TEST_F(BadUse, SizesBeyondTheLimits) {
  ibv_device_attr limits;
  ASSERT_EQ(ibv_query_device(context_, &limits), 0);
  EXPECT_EQ(why_not(ibv_create_cq(context_, limits.max_cqe + 1, nullptr, nullptr, 0)), EINVAL);
  EXPECT_EQ(why_not(ibv_create_cq(context_, 0, nullptr, nullptr, 0)), EINVAL);
  EXPECT_EQ(why_not(ibv_create_cq(context_, 4, nullptr, nullptr, context_->num_comp_vectors)),
            EINVAL);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.cap = {static_cast<uint32_t>(limits.max_qp_wr) + 1, 1, 1, 1, 0};
  EXPECT_EQ(why_not(ibv_create_qp(pd_, &init)), EINVAL);
  init.cap = {1, 1, static_cast<uint32_t>(limits.max_sge) + 1, 1, 0};
  EXPECT_EQ(why_not(ibv_create_qp(pd_, &init)), EINVAL);
  init.cap = {1, 1, 1, 1, 1 << 20};
  EXPECT_EQ(why_not(ibv_create_qp(pd_, &init)), EINVAL);
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = static_cast<uint32_t>(limits.max_srq_wr) + 1;
  EXPECT_EQ(why_not(ibv_create_srq(pd_, &srq)), EINVAL);
  ibv_qp* const qp = make_qp();
  ibv_sge list[3] = {};
  ibv_recv_wr recv{};
  recv.sg_list = list;
  recv.num_sge = 3;
  ibv_recv_wr* bad = nullptr;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad), EINVAL);
  recv.num_sge = -1;
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad), EINVAL);
}

TEST_F(BadUse, ListsThatAreLongerThanTheyMayBeAreNotRead) {
  const auto pair = make_pair();
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr recv{};
  ibv_recv_wr* bad_recv = nullptr;
  ibv_sge two[2] = {};
  for (const unsigned flags : {0u, static_cast<unsigned>(IBV_SEND_INLINE)}) {
    send.send_flags = flags;
    send.sg_list = two;
    send.num_sge = 1000;
    EXPECT_EQ(ibv_post_send(pair[0], &send, &bad_send), EINVAL);
    send.sg_list = nullptr;
    send.num_sge = 1;
    EXPECT_EQ(ibv_post_send(pair[0], &send, &bad_send), EINVAL);
  }
  recv.num_sge = 1;
  EXPECT_EQ(ibv_post_recv(pair[0], &recv, &bad_recv), EINVAL);
  recv.sg_list = two;
  recv.num_sge = 1000;
  EXPECT_EQ(ibv_post_recv(pair[0], &recv, &bad_recv), EINVAL);
}

TEST_F(BadUse, InlineDataWhoseLengthsWrap) {
  const auto pair = make_pair(IBV_QP_EX_WITH_SEND);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(pair[0]);
  ASSERT_NE(work, nullptr);
  char bytes[16] = {};
  const ibv_data_buf list[] = {{bytes, SIZE_MAX}, {bytes, 9}};
  ibv_wr_start(work);
  ibv_wr_send(work);
  ibv_wr_set_inline_data_list(work, 2, list);
  EXPECT_EQ(ibv_wr_complete(work), EINVAL);
}

TEST_F(BadUse, TheCallersWishIsNotChanged) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_XRC_SEND;
  init.cap = {1, 1, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  qps_.push_back(qp);
  EXPECT_EQ(init.recv_cq, cq_);
}

TEST_F(BadUse, AQueuePairsNumberIsNotUsedAgainSoon) {
  std::vector<uint32_t> numbers;
  for (int i = 0; i < 500; ++i) {
    ibv_qp* const qp = make_qp();
    std::erase(qps_, qp);
    numbers.push_back(qp->qp_num);
    ASSERT_EQ(ibv_destroy_qp(qp), 0);
  }
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
}

TEST_F(BadUse, TheWrongState) {
  ibv_qp* const qp = make_qp();
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad), EINVAL) << "RESET";
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL) << "RESET to RTS";
  set_raw(attr.qp_state, 77);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            EINVAL)
      << "no such port";
  EXPECT_EQ(ibv_modify_qp(qp, &attr, 1 << 30), EINVAL) << "no such attribute";
}

TEST_F(BadUse, WrongFlags) {
  char bytes[16];
  EXPECT_EQ(why_not(ibv_reg_mr_iova2(pd_, bytes, 16, 0, 1u << 15)), EINVAL);
  EXPECT_EQ(why_not(ibv_reg_mr_iova2(pd_, bytes, 16, 0, IBV_ACCESS_REMOTE_WRITE)), EINVAL)
      << "remote write without local write";
  EXPECT_EQ(why_not(ibv_reg_mr_iova2(pd_, bytes, 0, 0, IBV_ACCESS_ON_DEMAND)), EINVAL);
  EXPECT_EQ(why_not(ibv_reg_mr_iova2(pd_, reinterpret_cast<void*>(4096), 4096, 0, 0)), EFAULT)
      << "nothing is there";
  const auto pair = make_pair();
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.send_flags = 1u << 12;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(pair[0], &send, &bad), EINVAL);
  send.send_flags = 0;
  set_raw(send.opcode, 99);
  EXPECT_EQ(ibv_post_send(pair[0], &send, &bad), EINVAL);
  ibv_srq_attr attr{};
  ibv_srq_init_attr init{};
  init.attr = {4, 1, 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &init);
  ASSERT_NE(srq, nullptr);
  attr.srq_limit = 5;
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(BadUse, OtherContextsObjects) {
  ibv_context* const other = ibv_open_device(devices_[0]);
  ASSERT_NE(other, nullptr);
  ibv_cq* const cq = ibv_create_cq(other, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 1, 1, 0};
  EXPECT_EQ(why_not(ibv_create_qp(pd_, &init)), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(BadUse, OneOfManyThreadsDestroys) {
  for (int round = 0; round < 20; ++round) {
    ibv_qp* const qp = make_qp();
    std::erase(qps_, qp);
    std::atomic<int> destroyed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { destroyed += ibv_destroy_qp(qp) == 0 ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(destroyed, 1);
  }
}

// ibv_attach_mcast(3): UD queue pairs and multicast addresses.
TEST_F(BadUse, MulticastGroups) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_UD;
  ibv_qp* const qp = ibv_create_qp(pd_, &init);
  ASSERT_NE(qp, nullptr);
  ibv_gid group{};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  EXPECT_EQ(ibv_attach_mcast(nullptr, &group, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(qp, nullptr, 0), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(make_qp(), &group, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL);
  ibv_gid unicast = group;
  unicast.raw[12] = 127;
  EXPECT_EQ(ibv_attach_mcast(qp, &unicast, 0), EINVAL);

  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(qp, &group, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_attach_mcast(qp, &group, 0), EINVAL);
}

}  // namespace
}  // namespace verbena::verbs
