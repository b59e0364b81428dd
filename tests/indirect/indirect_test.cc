// SPDX-License-Identifier: Apache-2.0
// <verbena/indirect.h>: both ways to register, what a peer sees, and bad use.
#include "verbena/indirect.h"

#include <string>

#include "verbs/pair_fixture.h"

namespace verbena::indirect {
namespace {

constexpr uint64_t kStart = 0x7'0000'1003;
constexpr unsigned kRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class Indirect : public verbs::VerbsPair {
 protected:
  void SetUp() override {
    VerbsPair::SetUp();
    bytes_.assign(4096, '.');
    region_ = reg(bytes_.data(), bytes_.size());
    pair_ = make_pair();
    list_ = verbena_alloc_indirect_list(3);
    ASSERT_NE(list_, nullptr);
    // 15 bytes from three places, out of order.
    list_->entries[0] = sge_of(&bytes_[1001], 3, region_);
    list_->entries[1] = sge_of(&bytes_[2], 5, region_);
    list_->entries[2] = sge_of(&bytes_[2047], 7, region_);
    const verbena_indirect_mr_attr attr{.max_entries = 3, .flags = 0};
    mr_ = verbena_create_indirect_mr(pd_, &attr);
    ASSERT_NE(mr_, nullptr) << std::strerror(errno);
    std::memcpy(words_.data(), "abcdefghijklmno", 16);
    source_ = reg(words_.data(), words_.size());
  }
  void TearDown() override {
    if (mr_ != nullptr) {
      EXPECT_EQ(verbena_destroy_indirect_mr(mr_), 0);
    }
    verbena_free_indirect_list(list_);
    VerbsPair::TearDown();
  }

  [[nodiscard]] verbena_indirect_reg all(unsigned access = kRights) const {
    return {
        .iova_start = kStart, .list = list_, .list_len = 3, .length = 15, .access_flags = access};
  }
  [[nodiscard]] std::string text(size_t at, size_t length) const {
    return bytes_.substr(at, length);
  }
  // By the peer, of the words' first bytes.
  ibv_wc_status write(uint64_t to, uint32_t length) {
    ibv_sge sge = sge_of(words_.data(), length, source_);
    return run(pair_[1], rdma(IBV_WR_RDMA_WRITE, sge, to, mr_->rkey));
  }
  ibv_wc_status invalidate(uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = rkey;
    return run(pair_[0], wr);
  }

  std::string bytes_;
  std::array<char, 16> words_{};
  ibv_mr* region_ = nullptr;
  ibv_mr* source_ = nullptr;
  std::array<ibv_qp*, 2> pair_{};
  verbena_indirect_list* list_ = nullptr;
  verbena_indirect_mr* mr_ = nullptr;
};

TEST_F(Indirect, RegisteredAtOnceIsWrittenByAPeer) {
  const verbena_indirect_reg reg = all();
  ASSERT_EQ(verbena_reg_indirect_mr(mr_, &reg), 0);
  ASSERT_EQ(write(kStart + 1, 14), IBV_WC_SUCCESS);
  EXPECT_EQ(text(1000, 5), "..ab.");
  EXPECT_EQ(text(1, 7), ".cdefg.");
  EXPECT_EQ(text(2046, 9), ".hijklmn.");
  EXPECT_EQ(write(kStart + 2, 14), IBV_WC_REM_ACCESS_ERR);  // past the end
}

TEST_F(Indirect, PostedIsSeenByWhatIsPostedAfterIt) {
  verbena_indirect_reg_wr wr{};
  wr.wr_id = 3;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.mr = mr_;
  wr.reg = all();
  ASSERT_EQ(verbena_post_reg_indirect_mr(pair_[0], &wr), 0);
  *list_->entries = {};  // the list is free again
  ibv_sge sge{kStart, 15, mr_->lkey};
  bytes_.replace(1001, 3, "123").replace(2, 5, "45678").replace(2047, 7, "9ABCDEF");
  ibv_send_wr send = rdma(IBV_WR_RDMA_WRITE, sge, address(words_.data()), source_->rkey);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair_[0], &send, &bad), 0);
  ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(wc.opcode, IBV_WC_DRIVER1);
  wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(words_.data(), 15), "123456789ABCDEF");
}

TEST_F(Indirect, InvalidatedAndRegisteredAnew) {
  verbena_indirect_reg reg = all();
  ASSERT_EQ(verbena_reg_indirect_mr(mr_, &reg), 0);
  EXPECT_EQ(invalidate(mr_->rkey), IBV_WC_SUCCESS);
  reg.iova_start = 0;
  reg.length = 4;  // a part of the list
  ASSERT_EQ(verbena_reg_indirect_mr(mr_, &reg), 0);
  ASSERT_EQ(write(0, 4), IBV_WC_SUCCESS);
  EXPECT_EQ(text(1000, 5), ".abc.");
  EXPECT_EQ(text(1, 3), ".d.");
  EXPECT_EQ(write(0, 5), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Indirect, FreeItIsNobodys) { EXPECT_EQ(write(kStart, 1), IBV_WC_REM_ACCESS_ERR); }

TEST_F(Indirect, ItsOwnRightsCountAndThoseOfItsRegions) {
  verbena_indirect_reg reg = all(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(verbena_reg_indirect_mr(mr_, &reg), 0);
  EXPECT_EQ(write(kStart, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Indirect, ARegionThatIsGoneIsGoneHereToo) {
  const verbena_indirect_reg reg = all();
  ASSERT_EQ(verbena_reg_indirect_mr(mr_, &reg), 0);
  ASSERT_EQ(ibv_dereg_mr(take(region_)), 0);
  EXPECT_EQ(write(kStart, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Indirect, BadUse) {
  verbena_indirect_reg reg = all();
  reg.length = 16;
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);  // more than there is
  reg.length = 0;
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);
  reg = all(IBV_ACCESS_MW_BIND);
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);
  reg = all();
  reg.list_len = 4;
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);  // more than the list
  reg = all();
  reg.iova_start = UINT64_MAX - 3;
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);
  reg.list = nullptr;
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, &reg), EINVAL);
  EXPECT_EQ(verbena_reg_indirect_mr(mr_, nullptr), EINVAL);
  reg = all();
  EXPECT_EQ(verbena_reg_indirect_mr(nullptr, &reg), EINVAL);

  const verbena_indirect_mr_attr small{.max_entries = 2, .flags = 0};
  verbena_indirect_mr* const two = verbena_create_indirect_mr(pd_, &small);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(verbena_reg_indirect_mr(two, &reg), ENOMEM);
  verbena_indirect_reg_wr wr{};
  wr.mr = two;
  wr.reg = reg;
  EXPECT_EQ(verbena_post_reg_indirect_mr(pair_[0], &wr), ENOMEM);
  wr.mr = mr_;
  wr.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(verbena_post_reg_indirect_mr(pair_[0], &wr), EINVAL);
  wr.send_flags = 0;
  EXPECT_EQ(verbena_post_reg_indirect_mr(nullptr, &wr), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(verbena_destroy_indirect_mr(two), 0);
  EXPECT_EQ(verbena_destroy_indirect_mr(two), EINVAL);
  EXPECT_EQ(verbena_reg_indirect_mr(two, &reg), EINVAL);

  EXPECT_EQ(verbena_alloc_indirect_list(0), nullptr);
  verbena_free_indirect_list(nullptr);
  verbena_indirect_mr_attr attr{.max_entries = 0, .flags = 0};
  EXPECT_EQ(verbena_create_indirect_mr(pd_, &attr), nullptr);
  attr = {.max_entries = 1, .flags = 2};
  EXPECT_EQ(verbena_create_indirect_mr(pd_, &attr), nullptr);
  EXPECT_EQ(verbena_create_indirect_mr(nullptr, &small), nullptr);
}

}  // namespace
}  // namespace verbena::indirect
