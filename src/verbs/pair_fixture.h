// SPDX-License-Identifier: Apache-2.0
// For tests of the C interface: the device opened, and two queue pairs of this process connected to
// each other over loopback.
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace verbena::verbs {

// What this thread makes while it is there is leaked on purpose.
class Leak {
 public:
#if defined(__SANITIZE_ADDRESS__)
  Leak() { __lsan_disable(); }
  ~Leak() { __lsan_enable(); }
#else
  Leak() = default;
  ~Leak() {}  // NOLINT(modernize-use-equals-default): or nobody would use it
#endif
  Leak(const Leak&) = delete;
  Leak& operator=(const Leak&) = delete;
};

class VerbsPair : public ::testing::Test {
 protected:
  static constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                         IBV_ACCESS_MW_BIND;

  void SetUp() override {
    devices_ = ibv_get_device_list(nullptr);
    context_ = ibv_open_device(devices_[0]);
    ASSERT_NE(context_, nullptr) << "the device does not open: " << std::strerror(errno);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
    ASSERT_NE(pd_, nullptr);
    ASSERT_NE(cq_, nullptr);
  }
  void TearDown() override {
    for (ibv_qp* const qp : qps_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_mr* const mr : mrs_) EXPECT_EQ(ibv_dereg_mr(mr), 0);
    if (cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    }
    if (pd_ != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    }
    if (context_ != nullptr) {
      EXPECT_EQ(ibv_close_device(context_), 0);
    }
    ibv_free_device_list(devices_);
  }

  ibv_mr* reg(void* at, size_t bytes, unsigned access = kAllAccess) {
    ibv_mr* const mr = ibv_reg_mr_iova2(pd_, at, bytes, reinterpret_cast<uintptr_t>(at), access);
    EXPECT_NE(mr, nullptr) << std::strerror(errno);
    mrs_.push_back(mr);
    return mr;
  }
  // Given to the test to destroy.
  ibv_mr* take(ibv_mr* mr) {
    std::erase(mrs_, mr);
    return mr;
  }

  ibv_qp* make_qp(uint32_t depth = 16, uint64_t operations = 0) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = depth,
                .max_recv_wr = 16,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd_;
    if (operations != 0) {
      init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = operations;
    }
    ibv_qp* const qp = ibv_create_qp_ex(context_, &init);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    qps_.push_back(qp);
    return qp;
  }

  // To ready-to-send, towards a number that may be nobody's.
  void connect(ibv_qp* qp, uint32_t to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess & ~static_cast<unsigned>(IBV_ACCESS_MW_BIND);
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  std::array<ibv_qp*, 2> make_pair(uint64_t operations = 0) {
    const std::array<ibv_qp*, 2> pair{make_qp(16, operations), make_qp(16, operations)};
    connect(pair[0], pair[1]->qp_num);
    connect(pair[1], pair[0]->qp_num);
    return pair;
  }

  ibv_wc completion() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "no completion";
        break;
      }
    }
    return wc;
  }

  static ibv_send_wr rdma(ibv_wr_opcode op, ibv_sge& sge, uint64_t remote, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = op;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return wr;
  }
  // Posts and gives what became of it.
  ibv_wc_status run(ibv_qp* qp, ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    return completion().status;
  }
  static ibv_sge sge_of(void* at, uint32_t bytes, const ibv_mr* mr) {
    return {reinterpret_cast<uintptr_t>(at), bytes, mr->lkey};
  }
  static uint64_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

  ibv_device** devices_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<ibv_qp*> qps_;
  std::vector<ibv_mr*> mrs_;
};

}  // namespace verbena::verbs
