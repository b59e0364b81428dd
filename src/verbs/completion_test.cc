// SPDX-License-Identifier: Apache-2.0
// Completion queues: their size and vectors.
#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class CompletionQueues : public VerbsPair {};

TEST_F(CompletionQueues, SizesAreRoundedUpAsMlx5AndRxeDo) {
  constexpr std::array<std::array<int, 2>, 6> kAskedAndGiven{
      {{1, 1}, {2, 3}, {3, 3}, {4, 7}, {64, 127}, {1000, 1023}}};
  for (const auto& [asked, given] : kAskedAndGiven) {
    ibv_cq* const cq = ibv_create_cq(context_, asked, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(cq->cqe, given) << asked;
    EXPECT_EQ(ibv_resize_cq(cq, 9), 0);
    EXPECT_EQ(cq->cqe, 15);
    EXPECT_EQ(ibv_resize_cq(cq, asked), 0);
    EXPECT_EQ(cq->cqe, given) << asked;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(attr.max_cqe & (attr.max_cqe + 1), 0) << "rounding does not lead over the limit";
}

// NVIDIA's examples have queues of two for three completions.
TEST_F(CompletionQueues, AsManyAsAreToldFit) {
  ibv_cq* const usual = cq_;
  ibv_cq* const small = ibv_create_cq(context_, 2, nullptr, nullptr, 0);
  cq_ = small;
  const auto pair = make_pair();
  std::array<char, 16> bytes{};
  const ibv_mr* const mr = reg(bytes.data(), bytes.size());
  ibv_sge sge = sge_of(bytes.data(), 8, mr);
  const ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, sge, address(bytes.data() + 8), mr->rkey);
  ASSERT_EQ(small->cqe, 3);
  for (int i = 0; i < small->cqe; ++i) {
    ibv_send_wr wr = write;
    wr.wr_id = static_cast<uint64_t>(i);
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(pair[0], &wr, &bad), 0);
  }
  for (uint64_t i = 0; i < 3; ++i) {
    const ibv_wc wc = completion();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
  }
  for (ibv_qp* const qp : pair) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps_.clear();
  cq_ = usual;
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

TEST_F(CompletionQueues, EachVectorThatIsToldIsTaken) {
  ASSERT_GE(context_->num_comp_vectors, 1);
  EXPECT_EQ(context_->num_comp_vectors, std::min(::sysconf(_SC_NPROCESSORS_CONF), 1024L));
  for (int vector = 0; vector < context_->num_comp_vectors; ++vector) {
    ibv_cq* const cq = ibv_create_cq(context_, 1, nullptr, nullptr, vector);
    ASSERT_NE(cq, nullptr) << vector;
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
  }
  EXPECT_EQ(ibv_create_cq(context_, 1, nullptr, nullptr, context_->num_comp_vectors), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 1, nullptr, nullptr, -1), nullptr);
}

TEST_F(CompletionQueues, AtomicWritesAreAnnounced) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  constexpr uint64_t kAtomicWriteBit = uint64_t{1} << 40;  // IB_UVERBS_DEVICE_ATOMIC_WRITE
  EXPECT_NE(attr.device_cap_flags_ex & kAtomicWriteBit, 0u);
}

}  // namespace
}  // namespace verbena::verbs
