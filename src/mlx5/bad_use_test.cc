// SPDX-License-Identifier: Apache-2.0
// What a program may not do with keys: the error comes from ibv_wr_complete, and nothing is posted.
#include "mlx5/key_fixture.h"

namespace verbena::mlx5 {
namespace {

class KeyBadUse : public KeyPair {
 protected:
  void SetUp() override {
    KeyPair::SetUp();
    make_sides();
    key_ = make_key();
    sge_ = near_.at(0, 8);
    domain_.sig_type = MLX5DV_SIG_TYPE_CRC;
    domain_.sig.crc = &crc_;
    other_ = domain_;
    other_.block_size = MLX5DV_BLOCK_SIZE_4096;
  }
  void TearDown() override {
    // The queue pair took no harm, and has nothing of what failed.
    EXPECT_EQ(write(near_.at(0, 8), far_.at(0, 0).addr, far_.mr->rkey), IBV_WC_SUCCESS);
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
    KeyPair::TearDown();
  }
  void access(uint32_t flags = IBV_ACCESS_LOCAL_WRITE) const {
    mlx5dv_wr_set_mkey_access_flags(near_.mqp, flags);
  }
  void layout() const { mlx5dv_wr_set_mkey_layout_list(near_.mqp, 1, &sge_); }
  void signature(const mlx5dv_sig_block_attr& attr) const {
    mlx5dv_wr_set_mkey_sig_block(near_.mqp, &attr);
  }
  [[nodiscard]] int end() const { return ibv_wr_complete(near_.qpx); }
  [[nodiscard]] int try_signature(mlx5dv_mkey* key, const mlx5dv_sig_block_attr& attr) const {
    start(near_);
    begin(near_, key, 1);
    signature(attr);
    return end();
  }

  mlx5dv_mkey* key_ = nullptr;
  ibv_sge sge_{};
  mlx5dv_sig_crc crc_{MLX5DV_SIG_CRC_TYPE_CRC32, 0};
  mlx5dv_sig_block_domain domain_{};
  mlx5dv_sig_block_domain other_{};
};

TEST_F(KeyBadUse, SettersComeOnceEachAndAsManyAsAnnounced) {
  start(near_);
  begin(near_, key_, 2);
  access();
  access();
  EXPECT_EQ(end(), EINVAL);
  start(near_);
  begin(near_, key_, 2);
  layout();
  mlx5dv_mr_interleaved piece{sge_.addr, 8, 0, sge_.lkey};
  mlx5dv_wr_set_mkey_layout_interleaved(near_.mqp, 1, 1, &piece);
  EXPECT_EQ(end(), EINVAL);
  start(near_);
  begin(near_, key_, 2);
  access();
  EXPECT_EQ(end(), EINVAL);  // one is missing
  start(near_);
  begin(near_, key_, 1);
  access();
  layout();
  EXPECT_EQ(end(), EINVAL);  // one too many
  start(near_);
  begin(near_, key_, 2);
  access();
  ibv_wr_rdma_write(near_.qpx, 0, 0);  // in the middle of it
  EXPECT_EQ(end(), EINVAL);
  start(near_);
  layout();  // of what?
  EXPECT_EQ(end(), EINVAL);
  // Nothing is left of what was given up.
  start(near_);
  begin(near_, key_, 2);
  access();
  ibv_wr_abort(near_.qpx);
  start(near_);
  layout();
  EXPECT_EQ(end(), EINVAL);
}

TEST_F(KeyBadUse, ArgumentsThatCannotBe) {
  start(near_, 0);
  begin(near_, key_, 0);
  EXPECT_EQ(end(), EOPNOTSUPP);  // not inline
  start(near_);
  begin(near_, nullptr, 0);
  EXPECT_EQ(end(), EINVAL);
  mlx5dv_mkey_conf_attr attr{.conf_flags = 0, .comp_mask = 1};
  start(near_);
  mlx5dv_wr_mkey_configure(near_.mqp, key_, 0, &attr);
  EXPECT_EQ(end(), EINVAL);
  start(near_);
  begin(near_, key_, 0, 2);
  EXPECT_EQ(end(), EOPNOTSUPP);
  start(near_);
  begin(near_, key_, 1);
  access(IBV_ACCESS_MW_BIND);
  EXPECT_EQ(end(), EINVAL);
  const std::vector<ibv_sge> five(5, sge_);
  EXPECT_EQ(configure(near_, key_, five), ENOMEM);
  EXPECT_EQ(configure(near_, key_, {}), EINVAL);
  std::vector<mlx5dv_mr_interleaved> pieces(4, {sge_.addr, 8, 0, sge_.lkey});
  start(near_);
  mlx5dv_wr_mr_interleaved(near_.mqp, key_, 0, 1, 4, pieces.data());
  EXPECT_EQ(end(), ENOMEM);  // the head takes the place of one
  start(near_);
  pieces[0].bytes_skip = 65528;
  mlx5dv_wr_mr_interleaved(near_.mqp, key_, 0, 1, 3, pieces.data());
  EXPECT_EQ(end(), EINVAL);
  start(near_);
  mlx5dv_crypto_attr crypto{};
  mlx5dv_wr_set_mkey_crypto(near_.mqp, &crypto);
  EXPECT_EQ(end(), EOPNOTSUPP);
  start(near_);
  mlx5dv_wr_raw_wqe(near_.mqp, &crypto);
  EXPECT_EQ(end(), EOPNOTSUPP);
}

TEST_F(KeyBadUse, SignaturesThatCannotBe) {
  mlx5dv_mkey* const able = make_key(kSigned);
  mlx5dv_sig_block_attr attr{};
  EXPECT_EQ(try_signature(able, attr), EINVAL);  // on neither side
  attr.mem = &domain_;
  EXPECT_EQ(try_signature(key_, attr), EINVAL);  // the key has none
  EXPECT_EQ(try_signature(able, attr), 0);
  crc_.seed = 1;
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  crc_.seed = 0xf'0000'0000;  // bits above those of the CRC do not count
  EXPECT_EQ(try_signature(able, attr), 0);
  crc_.type = static_cast<mlx5dv_sig_crc_type>(3);
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  crc_ = {MLX5DV_SIG_CRC_TYPE_CRC32, 0};
  attr.comp_mask = 1;
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  attr.comp_mask = 0;
  attr.flags = 2;
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  attr.flags = MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK;
  attr.wire = &other_;
  EXPECT_EQ(try_signature(able, attr), EINVAL);  // blocks differ
  attr.wire = &domain_;
  EXPECT_EQ(try_signature(able, attr), 0);
  domain_.block_size = static_cast<mlx5dv_block_size>(5);
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  domain_.block_size = MLX5DV_BLOCK_SIZE_512;
  domain_.comp_mask = 1;
  EXPECT_EQ(try_signature(able, attr), EINVAL);
  domain_.comp_mask = 0;
  domain_.sig.crc = nullptr;
  EXPECT_EQ(try_signature(able, attr), EINVAL);
}

TEST_F(KeyBadUse, MakingAndDestroying) {
  mlx5dv_mkey_init_attr init{.pd = pd_, .create_flags = kIndirect, .max_entries = 3};
  mlx5dv_mkey* const key = mlx5dv_create_mkey(&init);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(init.max_entries, 4);
  EXPECT_EQ(key->lkey, key->rkey);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(mlx5dv_destroy_mkey(key), 0);
  EXPECT_EQ(mlx5dv_destroy_mkey(key), EINVAL);
  EXPECT_EQ(mlx5dv_destroy_mkey(nullptr), EINVAL);
  mlx5dv_mkey_err error{};
  EXPECT_EQ(mlx5dv_mkey_check(key, &error), EINVAL);
  EXPECT_EQ(configure(near_, key, {sge_}), EINVAL);
  for (const uint32_t flags : {uint32_t{0}, kIndirect | MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO,
                               kIndirect | MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG}) {
    init.create_flags = flags;
    errno = 0;
    EXPECT_EQ(mlx5dv_create_mkey(&init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  init = {.pd = nullptr, .create_flags = kIndirect, .max_entries = 4};
  EXPECT_EQ(mlx5dv_create_mkey(&init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(KeyBadUse, AQueuePairThatIsGone) {
  ibv_qp* const qp = make_key_qp();
  std::erase(qps_, qp);
  mlx5dv_qp_ex* const mqp = mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_to_qp_ex(qp));
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  mlx5dv_mkey_conf_attr attr{};
  mlx5dv_wr_mkey_configure(mqp, key_, 0, &attr);
  mlx5dv_wr_set_mkey_layout_list(mqp, 1, &sge_);
  mlx5dv_wr_memcpy(mqp, 0, 0, 0, 0, 0);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(mqp, 0), -EINVAL);
  EXPECT_EQ(mlx5dv_qp_ex_from_ibv_qp_ex(nullptr), nullptr);
}

TEST_F(KeyBadUse, QueuePairsThatAreNotThere) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap.max_send_wr = 1;
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd_;
  mlx5dv_qp_init_attr own{};
  const auto refusal = [&] {
    errno = 0;
    EXPECT_EQ(mlx5dv_create_qp(context_, &init, &own), nullptr);
    return errno;
  };
  own.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  own.create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
  EXPECT_EQ(refusal(), EOPNOTSUPP);
  own = {};
  own.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
  EXPECT_EQ(refusal(), EOPNOTSUPP);
  own.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  own.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
  EXPECT_EQ(refusal(), EOPNOTSUPP);
  own.comp_mask = 1u << 20;
  EXPECT_EQ(refusal(), EINVAL);
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  own.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  own.send_ops_flags = MLX5DV_QP_EX_WITH_MEMCPY;
  EXPECT_EQ(refusal(), EINVAL);
}

}  // namespace
}  // namespace verbena::mlx5
