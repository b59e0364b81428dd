// SPDX-License-Identifier: Apache-2.0
// What libibverbs has gained since rdma-core 44, as a program built with newer headers uses it.
#include "verbs/newer.h"

#include <array>
#include <chrono>
#include <thread>

#include "transport/operation_counter.h"
#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

using transport::bit_of;
using transport::CountedOp;

class VerbsNewer : public VerbsPair {
 protected:
  ibv_mr* reg_mr_ex(MrInitAttr attr) {
    return ibv_reg_mr_ex(pd_, reinterpret_cast<ibv_mr_init_attr*>(&attr));
  }
  ibv_comp_cntr* make_counter(uint32_t type = kCountRequests) {
    CompCntrInitAttr attr{.comp_mask = 0, .type = type, .flags = 0};
    return ibv_create_comp_cntr(context_, reinterpret_cast<ibv_comp_cntr_init_attr*>(&attr));
  }
  static int attach(ibv_qp* qp, ibv_comp_cntr* counter, uint32_t operations) {
    QpAttachCompCntrAttr attr{.comp_mask = 0, .op_mask = operations};
    return ibv_qp_attach_comp_cntr(qp, counter,
                                   reinterpret_cast<ibv_qp_attach_comp_cntr_attr*>(&attr));
  }
  static uint64_t value(ibv_comp_cntr* counter) {
    uint64_t value = 0;
    EXPECT_EQ(ibv_read_comp_cntr(counter, &value), 0);
    return value;
  }
  static uint64_t errors(ibv_comp_cntr* counter) {
    uint64_t value = 0;
    EXPECT_EQ(ibv_read_err_comp_cntr(counter, &value), 0);
    return value;
  }
  // Waits for it without polling a queue.
  template <typename Read>
  static void expect_soon(Read read, uint64_t wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (read() != wanted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(read(), wanted);
  }
  void destroy_qps() {
    for (ibv_qp* const qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    qps_.clear();
  }
  static void post_recv(ibv_qp* qp, ibv_sge sge) {
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  static void post_send(ibv_qp* qp, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }

  std::array<uint8_t, 4096> memory_{};
};

TEST_F(VerbsNewer, ProgramsOfOlderAndNewerHeadersFindTheirOperations) {
  // As verbs_get_ctx_op() of older headers looks at it,
  const verbs_context* const old = verbs_get_ctx(context_);
  EXPECT_GE(old->sz, sizeof(verbs_context));
  EXPECT_NE(old->query_port, nullptr);
  // and of newer ones, in which it begins earlier.
  EXPECT_EQ(old->sz, sizeof(VerbsContext));
  const auto* const newer = static_cast<const VerbsContext*>(old);
  EXPECT_EQ(newer->alloc_dmah(context_, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_NE(newer->reg_mr_ex, nullptr);
  EXPECT_NE(newer->alloc_buf, nullptr);
}

TEST_F(VerbsNewer, PortSpeedIsThatOfThePort) {
  uint64_t speed = 0;
  ASSERT_EQ(ibv_query_port_speed(context_, 1, &speed), 0);
  EXPECT_EQ(speed, 25u);  // 2.5 Gb/s
  EXPECT_EQ(ibv_query_port_speed(context_, 2, &speed), EINVAL);
  EXPECT_EQ(ibv_query_port_speed(context_, 1, nullptr), EINVAL);
  // The struct as newer headers have it, and what lies behind it.
  struct Longer {
    ibv_port_attr attr;
    uint32_t active_speed_ex;
    uint32_t behind;
  } port{};
  static_assert(offsetof(Longer, active_speed_ex) == kActiveSpeedExOffset);
  port.behind = 77;
  ASSERT_EQ(verbs_get_ctx(context_)->query_port(context_, 1, &port.attr, offsetof(Longer, behind)),
            0);
  EXPECT_EQ(port.active_speed_ex, port.attr.active_speed);
  EXPECT_EQ(port.behind, 77u);
  port.active_speed_ex = 88;
  ASSERT_EQ(verbs_get_ctx(context_)->query_port(context_, 1, &port.attr, sizeof port.attr), 0);
  EXPECT_EQ(port.active_speed_ex, 88u);
}

TEST_F(VerbsNewer, RegionsByAttributes) {
  MrInitAttr attr{};
  attr.length = memory_.size();
  attr.access = kAllAccess;
  attr.comp_mask = kRegMrAddr | kRegMrIova;
  attr.addr = memory_.data();
  attr.iova = 0x10'0000;
  ibv_mr* const mr = reg_mr_ex(attr);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, memory_.size());
  mrs_.push_back(mr);
  const auto pair = make_pair();
  std::array<uint8_t, 8> from{1, 2, 3, 4, 5, 6, 7, 8};
  ibv_sge sge = sge_of(from.data(), 8, reg(from.data(), 8));
  EXPECT_EQ(run(pair[0], rdma(IBV_WR_RDMA_WRITE, sge, 0x10'0010, mr->rkey)), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[0x10 + 7], 8);

  const auto refused = [&](uint64_t mask) {
    attr.comp_mask = mask;
    errno = 0;
    EXPECT_EQ(reg_mr_ex(attr), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(0), EINVAL);
  EXPECT_EQ(refused(kRegMrAddr | kRegMrFd), EINVAL);
  EXPECT_EQ(refused(kRegMrFd | kRegMrIova), EOPNOTSUPP);
  EXPECT_EQ(refused(kRegMrAddr | kRegMrDmah), EOPNOTSUPP);
  EXPECT_EQ(refused(kRegMrAddr | 1 << 20), EOPNOTSUPP);
  EXPECT_EQ(refused(kRegMrAddr | kRegMrBuf), EINVAL);
}

TEST_F(VerbsNewer, BuffersOfTheLibrarys) {
  ibv_buf* buf = nullptr;
  auto* const addr = static_cast<uint8_t*>(ibv_alloc_buf(pd_, 5000, &buf));
  ASSERT_NE(addr, nullptr);
  EXPECT_EQ(address(addr) % 4096, 0u);
  ibv_mr* const whole = ibv_reg_buf_mr(pd_, buf, addr, 5000, kAllAccess);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(ibv_dereg_mr(whole), 0);
  ibv_mr* const part = ibv_reg_buf_mr(pd_, buf, addr + 1000, 4000, kAllAccess);
  ASSERT_NE(part, nullptr);
  const auto pair = make_pair();
  memory_[0] = 99;
  ibv_sge sge = sge_of(memory_.data(), 1, reg(memory_.data(), 1));
  EXPECT_EQ(run(pair[0], rdma(IBV_WR_RDMA_WRITE, sge, address(addr + 4999), part->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(addr[4999], 99);
  EXPECT_EQ(ibv_dereg_mr(part), 0);
  EXPECT_EQ(ibv_reg_buf_mr(pd_, buf, addr + 1000, 4001, kAllAccess), nullptr);
  EXPECT_EQ(ibv_reg_buf_mr(pd_, buf, addr - 1, 1, kAllAccess), nullptr);
  ibv_pd* const other = ibv_alloc_pd(context_);
  EXPECT_EQ(ibv_reg_buf_mr(other, buf, addr, 1, kAllAccess), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  errno = 0;
  EXPECT_EQ(ibv_export_buf_dmabuf_fd(buf), -1);
  EXPECT_EQ(errno, ENODATA);
  // A domain that would have them elsewhere in a confidential guest.
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd_;
  parent.comp_mask = kAllowUnprotectedMemory;
  ibv_pd* const open = ibv_alloc_parent_domain(context_, &parent);
  ASSERT_NE(open, nullptr);
  ibv_buf* shared = nullptr;
  EXPECT_NE(ibv_alloc_buf(open, 1, &shared), nullptr);
  ibv_free_buf(shared);
  EXPECT_EQ(ibv_dealloc_pd(open), 0);
  ibv_free_buf(buf);
  ibv_free_buf(buf);  // a mistake, and no crash
  EXPECT_EQ(ibv_reg_buf_mr(pd_, buf, addr, 1, kAllAccess), nullptr);
  EXPECT_EQ(ibv_alloc_buf(pd_, 0, &buf), nullptr);
  EXPECT_EQ(ibv_alloc_buf(pd_, SIZE_MAX, &buf), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(VerbsNewer, CountersAreReadAndSet) {
  CompCntrCaps caps{};
  ASSERT_EQ(_ibv_query_comp_cntr_caps(context_, reinterpret_cast<ibv_comp_cntr_caps*>(&caps),
                                      sizeof caps),
            0);
  EXPECT_EQ(caps.max_value, UINT64_MAX);
  EXPECT_EQ(caps.supported_qp_attach_ops, 0x37u);  // all but the peer's READs
  // A program of an older struct has no room behind it, one of a newer gets zeros.
  caps.max_counters = 5;
  ASSERT_EQ(_ibv_query_comp_cntr_caps(context_, reinterpret_cast<ibv_comp_cntr_caps*>(&caps), 8),
            0);
  EXPECT_EQ(caps.max_counters, 5u);
  ibv_comp_cntr* const counter = make_counter();
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(reinterpret_cast<CompCntr*>(counter)->context, context_);
  EXPECT_EQ(value(counter), 0u);
  EXPECT_EQ(ibv_set_comp_cntr(counter, UINT64_MAX), 0);
  EXPECT_EQ(ibv_inc_comp_cntr(counter, 3), 0);
  EXPECT_EQ(value(counter), 2u);  // wrapped
  EXPECT_EQ(ibv_set_err_comp_cntr(counter, 10), 0);
  EXPECT_EQ(ibv_inc_err_comp_cntr(counter, 1), 0);
  EXPECT_EQ(errors(counter), 11u);
  EXPECT_EQ(value(counter), 2u);
  EXPECT_EQ(ibv_destroy_comp_cntr(counter), 0);
  EXPECT_EQ(ibv_destroy_comp_cntr(counter), EINVAL);
  uint64_t nothing = 0;
  EXPECT_EQ(ibv_read_comp_cntr(counter, &nothing), EINVAL);
  EXPECT_EQ(ibv_set_comp_cntr(nullptr, 1), EINVAL);
  CompCntrInitAttr attr{.comp_mask = 0, .type = 2, .flags = 0};
  EXPECT_EQ(ibv_create_comp_cntr(context_, reinterpret_cast<ibv_comp_cntr_init_attr*>(&attr)),
            nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr = {.comp_mask = 0, .type = 0, .flags = 1};
  EXPECT_EQ(ibv_create_comp_cntr(context_, reinterpret_cast<ibv_comp_cntr_init_attr*>(&attr)),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(VerbsNewer, CountersCountWithoutAQueueBeingPolled) {
  ibv_comp_cntr* const requests = make_counter();
  ibv_comp_cntr* const bytes = make_counter(kCountBytes);
  ibv_comp_cntr* const received = make_counter();
  ibv_comp_cntr* const written = make_counter();
  const std::array<ibv_qp*, 2> pair{make_qp(), make_qp()};
  EXPECT_EQ(attach(pair[0], requests, bit_of(CountedOp::kSend) | bit_of(CountedOp::kWrite)), 0);
  EXPECT_EQ(attach(pair[0], bytes, bit_of(CountedOp::kSend)), EBUSY);
  EXPECT_EQ(attach(pair[0], bytes, bit_of(CountedOp::kRead)), 0);
  EXPECT_EQ(attach(pair[1], received, bit_of(CountedOp::kRecv)), 0);
  EXPECT_EQ(attach(pair[1], written, bit_of(CountedOp::kRemoteWrite)), 0);
  EXPECT_EQ(attach(pair[1], written, bit_of(CountedOp::kRemoteRead)), EOPNOTSUPP);
  connect(pair[0], pair[1]->qp_num);
  connect(pair[1], pair[0]->qp_num);
  EXPECT_EQ(attach(pair[0], bytes, bit_of(CountedOp::kRecv)), EINVAL);

  const ibv_mr* const mr = reg(memory_.data(), memory_.size());
  ibv_sge sge = sge_of(memory_.data(), 100, mr);
  for (int i = 0; i < 3; ++i) post_recv(pair[1], sge_of(memory_.data() + 2000, 100, mr));
  ibv_send_wr send = rdma(IBV_WR_SEND, sge, 0, 0);
  send.send_flags = 0;  // it makes no completion
  for (int i = 0; i < 3; ++i) post_send(pair[0], send);
  expect_soon([&] { return value(received); }, 3);
  ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, sge, address(memory_.data() + 1000), mr->rkey);
  write.send_flags = 0;
  post_send(pair[0], write);
  post_send(pair[0], rdma(IBV_WR_RDMA_READ, sge, address(memory_.data() + 1000), mr->rkey));
  expect_soon([&] { return value(written); }, 1);
  expect_soon([&] { return value(bytes); }, 100);
  expect_soon([&] { return value(requests); }, 4);
  EXPECT_EQ(errors(requests) + errors(bytes) + errors(received) + errors(written), 0u);

  // To an error: what is left fails.
  post_recv(pair[1], sge_of(memory_.data() + 2000, 100, mr));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(pair[1], &attr, IBV_QP_STATE), 0);
  expect_soon([&] { return errors(received); }, 1);

  EXPECT_EQ(ibv_destroy_comp_cntr(requests), EBUSY);
  destroy_qps();
  EXPECT_EQ(value(requests), 4u);
  for (ibv_comp_cntr* const counter : {requests, bytes, received, written}) {
    EXPECT_EQ(ibv_destroy_comp_cntr(counter), 0);
  }
}

TEST_F(VerbsNewer, CountersOfAnotherContextAreNotForThisQueuePair) {
  ibv_context* const other = ibv_open_device(devices_[0]);
  ASSERT_NE(other, nullptr);
  CompCntrInitAttr attr{};
  ibv_comp_cntr* counter = nullptr;
  {
    const Leak on_purpose;
    counter = ibv_create_comp_cntr(other, reinterpret_cast<ibv_comp_cntr_init_attr*>(&attr));
  }
  ASSERT_NE(counter, nullptr);
  ibv_qp* const qp = make_qp();
  EXPECT_EQ(attach(qp, counter, 1), EINVAL);
  // Closed with its context.
  EXPECT_EQ(ibv_close_device(other), 0);
  uint64_t nothing = 0;
  EXPECT_EQ(ibv_read_comp_cntr(counter, &nothing), EINVAL);
  EXPECT_EQ(attach(qp, counter, 1), EINVAL);
  EXPECT_EQ(ibv_destroy_comp_cntr(counter), EINVAL);
}

TEST_F(VerbsNewer, WhatIsForOtherDevicesIsRefused) {
  errno = 0;
  EXPECT_EQ(ibv_alloc_dmah(context_, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_dm_export_dmabuf_fd(nullptr), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_STREQ(ibv_wr_opcode_str(IBV_WR_RDMA_READ), "rdma-read");
  EXPECT_STREQ(ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(14)), "flush");
  EXPECT_STREQ(ibv_wr_opcode_str(static_cast<ibv_wr_opcode>(13)), "unknown");
}

}  // namespace
}  // namespace verbena::verbs
