// SPDX-License-Identifier: Apache-2.0
// What can be asked of the device, and the smaller calls. The identity is our own.
#include <array>
#include <ctime>
#include <set>

#include "mlx5/key_fixture.h"

namespace verbena::mlx5 {
namespace {

class Mlx5Device : public KeyPair {};

TEST_F(Mlx5Device, OpensWithDevxAndRefusesItsCommands) {
  EXPECT_TRUE(mlx5dv_is_supported(devices_[0]));
  EXPECT_FALSE(mlx5dv_is_supported(nullptr));
  mlx5dv_context_attr attr{};
  ibv_context* const context = mlx5dv_open_device(devices_[0], &attr);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
  // As mlx5dv_mkey_check(3) has programs open it.
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  ibv_context* const devx = mlx5dv_open_device(devices_[0], &attr);
  ASSERT_NE(devx, nullptr);
  // The questions by which UCX finds out whether DEVX works. Of the second, newer ones look at
  // errno alone.
  std::array<uint8_t, 16> in{};
  std::array<uint8_t, 16> out{};
  errno = 0;
  EXPECT_EQ(mlx5dv_devx_create_event_channel(devx, {}), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(mlx5dv_devx_general_cmd(devx, in.data(), in.size(), out.data(), out.size()),
            EOPNOTSUPP);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(mlx5dv_devx_obj_create(devx, in.data(), in.size(), out.data(), out.size()), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_pd* const pd = ibv_alloc_pd(devx);
  ASSERT_NE(pd, nullptr);
  mlx5dv_mkey_init_attr key{};
  key.pd = pd;
  key.create_flags =
      MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
  key.max_entries = 4;
  mlx5dv_mkey* const mkey = mlx5dv_create_mkey(&key);
  ASSERT_NE(mkey, nullptr);
  mlx5dv_mkey_err error{};
  EXPECT_EQ(mlx5dv_mkey_check(mkey, &error), 0);
  EXPECT_EQ(error.err_type, MLX5DV_MKEY_NO_ERR);
  EXPECT_EQ(mlx5dv_destroy_mkey(mkey), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(devx), 0);
  // What this version knows nothing of.
  attr.flags = 1u << 31;
  errno = 0;
  EXPECT_EQ(mlx5dv_open_device(devices_[0], &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr = {.flags = 0, .comp_mask = 1};
  errno = 0;
  EXPECT_EQ(mlx5dv_open_device(devices_[0], &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Mlx5Device, TellsWhatItHas) {
  mlx5dv_context attr{};
  attr.comp_mask = UINT64_MAX;
  ASSERT_EQ(mlx5dv_query_device(context_, &attr), 0);
  EXPECT_NE(attr.comp_mask & MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD, 0u);
  EXPECT_EQ(attr.comp_mask & MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD, 0u);
  EXPECT_EQ(attr.sig_caps.block_size, 0x1fu);
  EXPECT_EQ(attr.sig_caps.crc_type, 7u);
  EXPECT_EQ(attr.max_wr_memcpy_length, size_t{1} << 20);
  EXPECT_EQ(attr.num_lag_ports, 0);
  EXPECT_EQ(attr.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1, 0u);
  // What was not asked for is not written.
  attr.comp_mask = 0;
  attr.max_wr_memcpy_length = 5;
  ASSERT_EQ(mlx5dv_query_device(context_, &attr), 0);
  EXPECT_EQ(attr.comp_mask, 0u);
  EXPECT_EQ(attr.max_wr_memcpy_length, 5u);
  EXPECT_EQ(mlx5dv_query_device(nullptr, &attr), EINVAL);
  mlx5dv_port port{};
  EXPECT_EQ(mlx5dv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(port.flags, 0u);
  EXPECT_EQ(mlx5dv_query_port(context_, 2, &port), EINVAL);
}

TEST_F(Mlx5Device, ClockInfoTurnsStampsIntoTime) {
  mlx5dv_clock_info info{};
  ASSERT_EQ(mlx5dv_get_clock_info(context_, &info), 0);
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
  const uint64_t ns = mlx5dv_ts_to_ns(&info, static_cast<uint64_t>(values.raw_clock.tv_nsec));
  const auto seconds = static_cast<int64_t>(ns / 1'000'000'000);
  EXPECT_LT(std::abs(seconds - static_cast<int64_t>(std::time(nullptr))), 3600);
  EXPECT_LT(mlx5dv_ts_to_ns(&info, info.last_cycles - 10), info.nsec);
}

TEST_F(Mlx5Device, CompletionQueuesOfAnyForm) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 8;
  mlx5dv_cq_init_attr own{};
  const auto make = [&] {
    errno = 0;
    ibv_cq_ex* const cq = mlx5dv_create_cq(context_, &init, &own);
    if (cq == nullptr) return errno;
    return ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
  };
  EXPECT_EQ(make(), 0);
  own.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  own.cqe_size = 128;
  EXPECT_EQ(make(), 0);
  own.cqe_size = 100;
  EXPECT_EQ(make(), EINVAL);
  own.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_FLAGS;
  own.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
  EXPECT_EQ(make(), EINVAL);  // needs 128 bytes
  own.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
  own.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
  EXPECT_EQ(make(), 0);
  own.cqe_comp_res_format |= MLX5DV_CQE_RES_FORMAT_CSUM;
  EXPECT_EQ(make(), EINVAL);
  own.comp_mask = 1u << 20;
  EXPECT_EQ(make(), EINVAL);
}

TEST_F(Mlx5Device, ReservedNumbersAreNobodys) {
  std::set<uint32_t> reserved;
  for (int i = 0; i < 100; ++i) {
    uint32_t qpn = 0;
    ASSERT_EQ(mlx5dv_reserved_qpn_alloc(context_, &qpn), 0);
    EXPECT_TRUE(reserved.insert(qpn).second);
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(reserved.contains(make_qp()->qp_num));
  for (const uint32_t qpn : reserved) {
    EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(context_, qpn), 0);
    EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(context_, qpn), EINVAL);
  }
  EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(context_, make_qp()->qp_num), EINVAL);
  EXPECT_EQ(mlx5dv_reserved_qpn_alloc(context_, nullptr), EINVAL);
}

TEST_F(Mlx5Device, ReservedNumbersHaveABound) {
  ibv_context* const other = ibv_open_device(devices_[0]);
  uint32_t qpn = 0;
  int error = 0;
  for (int i = 0; i < 10'000 && error == 0; ++i) error = mlx5dv_reserved_qpn_alloc(other, &qpn);
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(mlx5dv_reserved_qpn_alloc(context_, &qpn), ENOMEM);
  EXPECT_EQ(ibv_close_device(other), 0);  // gives them back
  ASSERT_EQ(mlx5dv_reserved_qpn_alloc(context_, &qpn), 0);
  EXPECT_EQ(mlx5dv_reserved_qpn_dealloc(context_, qpn), 0);
}

TEST_F(Mlx5Device, WishesWithoutEffectAreRefused) {
  ibv_qp* const qp = make_qp();
  uint8_t port = 0;
  uint8_t active = 0;
  EXPECT_EQ(mlx5dv_query_qp_lag_port(qp, &port, &active), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_lag_port(qp, 1), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_udp_sport(qp, 50000), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_sched_elem(qp, nullptr, nullptr), EOPNOTSUPP);
  mlx5dv_sched_attr attr{};
  errno = 0;
  EXPECT_EQ(mlx5dv_sched_node_create(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Mlx5Device, DeviceMemoryOfTheUsualKindAlone) {
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  mlx5dv_alloc_dm_attr own{};
  own.type = MLX5DV_DM_TYPE_MEMIC;
  ibv_dm* const dm = mlx5dv_alloc_dm(context_, &attr, &own);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  own.type = MLX5DV_DM_TYPE_STEERING_SW_ICM;
  errno = 0;
  EXPECT_EQ(mlx5dv_alloc_dm(context_, &attr, &own), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::mlx5
