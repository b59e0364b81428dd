// SPDX-License-Identifier: Apache-2.0
// Keys through the C interface: layouts, signatures, their life.
#include "mlx5/key_fixture.h"

namespace verbena::mlx5 {
namespace {

using Bytes = std::vector<uint8_t>;

TEST_F(KeyPair, AListIsOneRangeOnEitherSide) {
  make_sides();
  mlx5dv_mkey* const from = make_key();
  mlx5dv_mkey* const to = make_key();
  std::memcpy(near_.bytes.data(), "abcdefgh", 8);
  ASSERT_EQ(configure(near_, from, {near_.at(4, 3), near_.at(0, 2)}), 0);  // efgab
  ASSERT_EQ(configure(far_, to, {far_.at(101, 1), far_.at(7, 4)}), 0);
  ASSERT_EQ(write({0, 5, from->lkey}, 0, to->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(text(far_, 100, 3), "fef");
  EXPECT_EQ(text(far_, 6, 6), "ffgabf");
  // Past its end; the error ends the queue pair.
  EXPECT_EQ(write({1, 5, from->lkey}, 0, to->rkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(KeyPair, AnInterleaveTakesFromEachInTurn) {
  make_sides();
  mlx5dv_mkey* const key = make_key();
  std::memcpy(near_.bytes.data(), "aabbccdd", 8);
  std::memcpy(near_.bytes.data() + 64, "1x2x3x4x", 8);
  std::array<mlx5dv_mr_interleaved, 2> data{};
  data[0] = {near_.at(0, 0).addr, 2, 0, near_.mr->lkey};
  data[1] = {near_.at(64, 0).addr, 1, 1, near_.mr->lkey};
  start(near_);
  mlx5dv_wr_mr_interleaved(near_.mqp, key, IBV_ACCESS_LOCAL_WRITE, 4, 2, data.data());
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  ASSERT_EQ(write({0, 12, key->lkey}, far_.at(0, 0).addr, far_.mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(text(far_, 0, 13), "aa1bb2cc3dd4f");
}

TEST_F(KeyPair, ARequestOfTheSameBatchSeesTheConfiguration) {
  make_sides();
  mlx5dv_mkey* const key = make_key();
  start(near_);
  begin(near_, key, 1);
  ibv_sge sge = near_.at(0, 8);
  mlx5dv_wr_set_mkey_layout_list(near_.mqp, 1, &sge);
  near_.qpx->wr_flags = IBV_SEND_SIGNALED;
  near_.qpx->wr_id = 5;
  ibv_wr_rdma_write(near_.qpx, far_.mr->rkey, far_.at(0, 0).addr);
  ibv_wr_set_sge(near_.qpx, key->lkey, 0, 8);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(text(far_, 0, 9), "nnnnnnnnf");
}

TEST_F(KeyPair, AConfigurationCompletesByItsOwnName) {
  make_sides();
  mlx5dv_mkey* const key = make_key();
  start(near_, IBV_SEND_INLINE | IBV_SEND_SIGNALED, 9);
  ibv_sge sge = near_.at(0, 8);
  mlx5dv_wr_mr_list(near_.mqp, key, IBV_ACCESS_LOCAL_WRITE, 1, &sge);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, static_cast<ibv_wc_opcode>(MLX5DV_WC_UMR));
  EXPECT_EQ(wc.wr_id, 9u);
}

TEST_F(KeyPair, AKeyIsOfNoUseBeforeAndAfter) {
  make_sides();
  mlx5dv_mkey* const key = make_key();
  ASSERT_EQ(configure(near_, key, {near_.at(0, 8)}), 0);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = key->rkey;
  EXPECT_EQ(run(near_.qp, invalidate), IBV_WC_SUCCESS);
  EXPECT_EQ(write({0, 8, key->lkey}, far_.at(0, 0).addr, far_.mr->rkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(KeyPair, APeerInvalidatesIfItMay) {
  make_sides();
  mlx5dv_mkey* const key = make_key(kIndirect | MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE);
  ASSERT_EQ(configure(far_, key, {far_.at(0, 8)}), 0);
  ASSERT_EQ(write(near_.at(0, 8), 0, key->rkey), IBV_WC_SUCCESS);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(far_.qp, &receive, &bad), 0);
  start(near_, 0);
  ibv_wr_send_inv(near_.qpx, key->rkey);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.invalidated_rkey, key->rkey);
  EXPECT_EQ(write(near_.at(0, 8), 0, key->rkey), IBV_WC_REM_ACCESS_ERR);
}

struct Known {
  mlx5dv_sig_type type;
  int kind;  // mlx5dv_sig_crc_type or mlx5dv_sig_t10dif_bg_type
  mlx5dv_block_size size;
  uint32_t block;
  uint8_t fill;
  Bytes signature;
};

class KnownSignatures : public KeyPair, public ::testing::WithParamInterface<Known> {
 protected:
  void SetUp() override {
    KeyPair::SetUp();
    const Known& known = GetParam();
    crc_ = {static_cast<mlx5dv_sig_crc_type>(known.kind), UINT64_MAX};
    dif_ = {static_cast<mlx5dv_sig_t10dif_bg_type>(known.kind), 0xffff, 0x1234, 0x01020304,
            MLX5DV_SIG_T10DIF_FLAG_REF_REMAP};
    domain_.sig_type = known.type;
    if (known.type == MLX5DV_SIG_TYPE_CRC) domain_.sig.crc = &crc_;
    if (known.type == MLX5DV_SIG_TYPE_T10DIF) domain_.sig.dif = &dif_;
    domain_.block_size = known.size;
  }
  mlx5dv_sig_crc crc_{};
  mlx5dv_sig_t10dif dif_{};
  mlx5dv_sig_block_domain domain_{};
};

// The figures of facts that real adapters were seen to give.
TEST_P(KnownSignatures, AreInsertedOnTheWayOutAndStrippedOnTheWayIn) {
  const Known& known = GetParam();
  make_sides();
  near_.bytes.assign(kRoom, known.fill);
  mlx5dv_mkey* const from = make_key(kSigned);
  mlx5dv_mkey* const to = make_key(kSigned);
  mlx5dv_sig_block_attr attr{};
  attr.wire = &domain_;
  attr.check_mask = 0xff;
  ASSERT_EQ(configure(near_, from, {near_.at(0, known.block)}, &attr), 0);
  ASSERT_EQ(configure(far_, to, {far_.at(8192, known.block)}, &attr), 0);
  const auto wire = static_cast<uint32_t>(known.block + known.signature.size());
  ASSERT_EQ(write({0, wire, from->lkey}, far_.at(0, 0).addr, far_.mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(found(far_, known.block, known.signature.size()), known.signature);
  ASSERT_EQ(write({0, wire, from->lkey}, 0, to->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(found(far_, 8192, known.block + 1), [&] {
    Bytes expected(known.block, known.fill);
    expected.push_back('f');
    return expected;
  }());
  mlx5dv_mkey_err error{};
  ASSERT_EQ(mlx5dv_mkey_check(to, &error), 0);
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_NO_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, KnownSignatures,
                         ::testing::Values(Known{MLX5DV_SIG_TYPE_CRC,
                                                 MLX5DV_SIG_CRC_TYPE_CRC32,
                                                 MLX5DV_BLOCK_SIZE_512,
                                                 512,
                                                 'a',
                                                 {0xbc, 0x16, 0xa9, 0xa0}},
                                           Known{MLX5DV_SIG_TYPE_CRC,
                                                 MLX5DV_SIG_CRC_TYPE_CRC32,
                                                 MLX5DV_BLOCK_SIZE_4096,
                                                 4096,
                                                 'a',
                                                 {0xb7, 0x2f, 0xb9, 0xaf}},
                                           Known{MLX5DV_SIG_TYPE_CRC,
                                                 MLX5DV_SIG_CRC_TYPE_CRC32C,
                                                 MLX5DV_BLOCK_SIZE_4096,
                                                 4096,
                                                 'a',
                                                 {0xa2, 0x4c, 0xc7, 0x26}},
                                           Known{
                                               MLX5DV_SIG_TYPE_T10DIF,
                                               MLX5DV_SIG_T10DIF_CRC,
                                               MLX5DV_BLOCK_SIZE_512,
                                               512,
                                               0xa5,
                                               {0xec, 0x7d, 0x12, 0x34, 0x01, 0x02, 0x03, 0x04}}));

TEST_F(KeyPair, AWrongSignatureIsToldOnce) {
  make_sides();
  mlx5dv_mkey* const key = make_key(kSigned);
  const mlx5dv_sig_crc crc{MLX5DV_SIG_CRC_TYPE_CRC32, UINT32_MAX};
  mlx5dv_sig_block_domain domain{};
  domain.sig_type = MLX5DV_SIG_TYPE_CRC;
  domain.sig.crc = &crc;
  domain.block_size = MLX5DV_BLOCK_SIZE_512;
  mlx5dv_sig_block_attr attr{};
  attr.mem = &domain;
  attr.check_mask = MLX5DV_SIG_MASK_CRC32;
  near_.bytes.assign(kRoom, 'a');
  const Bytes good{0xbc, 0x16, 0xa9, 0xa0};
  std::ranges::copy(good, near_.bytes.begin() + 512);
  const Bytes wrong{1, 2, 3, 4};
  std::ranges::copy(wrong, near_.bytes.begin() + 516 + 512);
  ASSERT_EQ(configure(near_, key, {near_.at(0, 2 * 516)}, &attr), 0);
  // The data's own completion is good.
  ASSERT_EQ(write({0, 1024, key->lkey}, far_.at(0, 0).addr, far_.mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(text(far_, 1023, 2), "af");
  mlx5dv_mkey_err error{};
  ASSERT_EQ(mlx5dv_mkey_check(key, &error), 0);
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD);
  EXPECT_EQ(error.err.sig.actual_value, 0xbc16a9a0);
  EXPECT_EQ(error.err.sig.expected_value, 0x01020304u);
  EXPECT_EQ(error.err.sig.offset, 516u);
  ASSERT_EQ(mlx5dv_mkey_check(key, &error), 0);
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_NO_ERR);
}

TEST_F(KeyPair, AWrongSignatureStopsAPipelinedQueue) {
  make_sides(MLX5DV_QP_CREATE_SIG_PIPELINING);
  mlx5dv_mkey* const key = make_key(kSigned);
  const mlx5dv_sig_crc crc{MLX5DV_SIG_CRC_TYPE_CRC32, 0};
  mlx5dv_sig_block_domain domain{};
  domain.sig_type = MLX5DV_SIG_TYPE_CRC;
  domain.sig.crc = &crc;
  mlx5dv_sig_block_attr attr{};
  attr.mem = &domain;
  attr.check_mask = MLX5DV_SIG_MASK_CRC32;
  ASSERT_EQ(configure(near_, key, {near_.at(0, 516)}, &attr), 0);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(near_.mqp, 7), -EINVAL);  // it is not stopped
  start(near_, 0, 7);
  ibv_wr_rdma_write(near_.qpx, far_.mr->rkey, far_.at(0, 0).addr);
  ibv_wr_set_sge(near_.qpx, key->lkey, 0, 512);
  near_.qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  ibv_wr_send(near_.qpx);
  ibv_wr_set_sge(near_.qpx, near_.mr->lkey, near_.at(0, 0).addr, 16);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, near_.qp);
  ibv_ack_async_event(&event);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(near_.mqp, 8), 0);
  EXPECT_EQ(mlx5dv_qp_cancel_posted_send_wrs(near_.mqp, 7), 1);
  ibv_qp_attr again{};
  again.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(near_.qp, &again, IBV_QP_STATE), 0);
  // The peer has posted no receive: what was cancelled did not go out.
  wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(wc.wr_id, 7u);
}

TEST_F(KeyPair, MemcpyCopiesBetweenKeys) {
  make_sides();
  start(near_, IBV_SEND_SIGNALED);
  mlx5dv_wr_memcpy(near_.mqp, far_.mr->lkey, far_.at(1, 0).addr, near_.mr->lkey,
                   near_.at(0, 0).addr, 3);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, static_cast<ibv_wc_opcode>(MLX5DV_WC_MEMCPY));
  EXPECT_EQ(text(far_, 0, 5), "fnnnf");

  start(near_, IBV_SEND_SIGNALED);
  mlx5dv_wr_memcpy(near_.mqp, far_.mr->lkey, far_.at(0, 0).addr, near_.mr->lkey,
                   near_.at(0, 0).addr, (1u << 20) + 1);
  EXPECT_EQ(ibv_wr_complete(near_.qpx), EINVAL);
  start(near_, IBV_SEND_SIGNALED);
  mlx5dv_wr_memcpy(near_.mqp, far_.mr->lkey, far_.at(kRoom, 0).addr, near_.mr->lkey,
                   near_.at(0, 0).addr, 1);
  ASSERT_EQ(ibv_wr_complete(near_.qpx), 0);
  EXPECT_EQ(completion().status, IBV_WC_LOC_PROT_ERR);
}

}  // namespace
}  // namespace verbena::mlx5
