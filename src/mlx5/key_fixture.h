// SPDX-License-Identifier: Apache-2.0
// For tests of mlx5dv: two connected queue pairs that take a ConnectX's own requests, and memory on
// either side.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <infiniband/mlx5dv.h>

#include "verbs/pair_fixture.h"

namespace verbena::mlx5 {

class KeyPair : public verbs::VerbsPair {
 protected:
  static constexpr uint32_t kIndirect = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT;
  static constexpr uint32_t kSigned =
      MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
  static constexpr uint32_t kRoom = 16384;

  struct Side {
    ibv_qp* qp = nullptr;
    ibv_qp_ex* qpx = nullptr;
    mlx5dv_qp_ex* mqp = nullptr;
    std::vector<uint8_t> bytes;
    ibv_mr* mr = nullptr;

    [[nodiscard]] ibv_sge at(uint64_t offset, uint32_t length) const {
      return {reinterpret_cast<uintptr_t>(bytes.data()) + offset, length, mr->lkey};
    }
  };

  void TearDown() override {
    for (mlx5dv_mkey* const key : keys_) EXPECT_EQ(mlx5dv_destroy_mkey(key), 0);
    VerbsPair::TearDown();
  }

  ibv_qp* make_key_qp(uint32_t create_flags = 0) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV;
    init.pd = pd_;
    mlx5dv_qp_init_attr own{};
    own.comp_mask =
        MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    own.create_flags = create_flags;
    own.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MR_LIST |
                         MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MEMCPY;
    ibv_qp* const qp = mlx5dv_create_qp(context_, &init, &own);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    qps_.push_back(qp);
    return qp;
  }

  void make_sides(uint32_t create_flags = 0) {
    for (Side* const side : {&near_, &far_}) {
      side->qp = make_key_qp(create_flags);
      side->qpx = ibv_qp_to_qp_ex(side->qp);
      side->mqp = mlx5dv_qp_ex_from_ibv_qp_ex(side->qpx);
      side->bytes.assign(kRoom, side == &near_ ? 'n' : 'f');
      side->mr = reg(side->bytes.data(), kRoom);
      ASSERT_NE(side->mqp, nullptr);
    }
    connect(near_.qp, far_.qp->qp_num);
    connect(far_.qp, near_.qp->qp_num);
  }

  mlx5dv_mkey* make_key(uint32_t flags = kIndirect, uint16_t entries = 4) {
    mlx5dv_mkey_init_attr init{.pd = pd_, .create_flags = flags, .max_entries = entries};
    mlx5dv_mkey* const key = mlx5dv_create_mkey(&init);
    EXPECT_NE(key, nullptr) << std::strerror(errno);
    keys_.push_back(key);
    return key;
  }

  static void start(const Side& side, unsigned flags = IBV_SEND_INLINE, uint64_t wr_id = 0) {
    ibv_wr_start(side.qpx);
    side.qpx->wr_id = wr_id;
    side.qpx->wr_flags = flags;
  }
  static void begin(const Side& side, mlx5dv_mkey* key, uint8_t setters, uint32_t conf_flags = 0) {
    mlx5dv_mkey_conf_attr attr{.conf_flags = conf_flags, .comp_mask = 0};
    mlx5dv_wr_mkey_configure(side.mqp, key, setters, &attr);
  }

  static constexpr uint32_t kRights =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  // As a list, with a signature if it is given; posted, and not waited for.
  static int configure(const Side& side, mlx5dv_mkey* key, std::vector<ibv_sge> list,
                       const mlx5dv_sig_block_attr* signature = nullptr) {
    start(side);
    begin(side, key, signature != nullptr ? 3 : 2);
    mlx5dv_wr_set_mkey_access_flags(side.mqp, kRights);
    mlx5dv_wr_set_mkey_layout_list(side.mqp, static_cast<uint16_t>(list.size()), list.data());
    if (signature != nullptr) mlx5dv_wr_set_mkey_sig_block(side.mqp, signature);
    return ibv_wr_complete(side.qpx);
  }

  // A WRITE from near to far.
  ibv_wc_status write(ibv_sge from, uint64_t to, uint32_t rkey) {
    return run(near_.qp, rdma(IBV_WR_RDMA_WRITE, from, to, rkey));
  }
  static std::string text(const Side& side, size_t offset, size_t length) {
    return {reinterpret_cast<const char*>(side.bytes.data()) + offset, length};
  }
  static std::vector<uint8_t> found(const Side& side, size_t offset, size_t length) {
    const auto from = side.bytes.begin() + static_cast<ptrdiff_t>(offset);
    return {from, from + static_cast<ptrdiff_t>(length)};
  }

  Side near_;
  Side far_;
  std::vector<mlx5dv_mkey*> keys_;
};

}  // namespace verbena::mlx5
