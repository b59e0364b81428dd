// SPDX-License-Identifier: Apache-2.0
// Calls that give an error number set errno, too: programs print it with perror() and %m.
#include <cerrno>
#include <string>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class ErrnoOf : public VerbsPair {
 protected:
  template <typename Call>
  static void expect(int error, Call&& call, const char* what) {
    errno = ECONNREFUSED;  // what an earlier call of the program left there
    EXPECT_EQ(call(), error) << what;
    EXPECT_EQ(errno, error) << what;
  }
};

#define EXPECT_ERRNO(error, call) expect(error, [&] { return call; }, #call)

TEST_F(ErrnoOf, QueuePairs) {
  ibv_qp* const qp = make_qp();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_ERRNO(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
  EXPECT_ERRNO(EINVAL, ibv_query_qp(qp, nullptr, 0, nullptr));
  EXPECT_ERRNO(EINVAL, ibv_destroy_qp(nullptr));
  EXPECT_ERRNO(EBUSY, ibv_destroy_cq(cq_));
  EXPECT_ERRNO(EBUSY, ibv_dealloc_pd(pd_));
  ibv_gid group{};
  EXPECT_ERRNO(EINVAL, ibv_attach_mcast(qp, &group, 0));
  EXPECT_ERRNO(EINVAL, ibv_detach_mcast(qp, &group, 0));
  EXPECT_ERRNO(EINVAL, ibv_destroy_ah(nullptr));
  EXPECT_ERRNO(EOPNOTSUPP, ibv_query_ece(qp, nullptr));
  EXPECT_ERRNO(EOPNOTSUPP, ibv_set_ece(qp, nullptr));
}

TEST_F(ErrnoOf, CompletionQueues) {
  EXPECT_ERRNO(EINVAL, ibv_resize_cq(cq_, 0));
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ibv_cq* const cq = ibv_create_cq(context_, 1, nullptr, channel, 0);
  EXPECT_ERRNO(EBUSY, ibv_destroy_comp_channel(channel));
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  ASSERT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(ErrnoOf, Queries) {
  ibv_port_attr port;
  EXPECT_ERRNO(EINVAL, ibv_query_port(context_, 2, &port));
  EXPECT_ERRNO(EINVAL, ibv_query_device(context_, nullptr));
  ibv_gid_entry entry;
  EXPECT_ERRNO(EINVAL, ibv_query_gid_ex(context_, 2, 0, &entry, 0));
  EXPECT_ERRNO(EINVAL, -static_cast<int>(ibv_query_gid_table(context_, &entry, 1, 1)));
  ibv_values_ex values{.comp_mask = 1u << 30, .raw_clock = {}};
  EXPECT_ERRNO(EINVAL, ibv_query_rt_values_ex(context_, &values));
  EXPECT_ERRNO(EINVAL, ibv_close_device(nullptr));
}

TEST_F(ErrnoOf, Memory) {
  std::array<char, 64> bytes{};
  ibv_mr* const mr = take(reg(bytes.data(), bytes.size()));
  ibv_sge sge = sge_of(bytes.data(), 8, mr);
  EXPECT_ERRNO(EINVAL, ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_ERRNO(EINVAL, ibv_dereg_mr(mr));
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ibv_mw_bind bind{};
  EXPECT_ERRNO(EINVAL, ibv_bind_mw(make_qp(), mw, &bind));
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_ERRNO(EINVAL, ibv_dealloc_mw(mw));
  ibv_alloc_dm_attr wish{.length = 64, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* const dm = ibv_alloc_dm(context_, &wish);
  ASSERT_NE(dm, nullptr);
  EXPECT_ERRNO(EINVAL, ibv_memcpy_to_dm(dm, 64, bytes.data(), 4));
  EXPECT_ERRNO(EINVAL, ibv_memcpy_from_dm(bytes.data(), dm, 64, 4));
  ibv_mr* const part = ibv_reg_dm_mr(pd_, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
  EXPECT_ERRNO(EBUSY, ibv_free_dm(dm));
  ASSERT_EQ(ibv_dereg_mr(part), 0);
  ASSERT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(ErrnoOf, OtherObjects) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(pd_, &init);
  ibv_srq_attr attr{};
  EXPECT_ERRNO(EOPNOTSUPP, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
  EXPECT_ERRNO(EINVAL, ibv_query_srq(srq, nullptr));
  uint32_t number = 0;
  EXPECT_ERRNO(EINVAL, ibv_get_srq_num(srq, &number));
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_ERRNO(EINVAL, ibv_destroy_srq(srq));
  ibv_td_init_attr nothing{};
  ibv_td* const td = ibv_alloc_td(context_, &nothing);
  ibv_parent_domain_init_attr of{};
  of.pd = pd_;
  of.td = td;
  ibv_pd* const domain = ibv_alloc_parent_domain(context_, &of);
  EXPECT_ERRNO(EBUSY, ibv_dealloc_td(td));
  ASSERT_EQ(ibv_dealloc_pd(domain), 0);
  ASSERT_EQ(ibv_dealloc_td(td), 0);
}

// A success leaves errno alone.
TEST_F(ErrnoOf, Success) {
  ibv_device_attr attr;
  errno = ECONNREFUSED;
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace verbena::verbs
