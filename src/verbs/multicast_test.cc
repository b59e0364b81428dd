// SPDX-License-Identifier: Apache-2.0
// Groups by their addresses: those of either family are reached from either family.
#include <cerrno>
#include <optional>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class VerbsMulticast : public VerbsPair {
 protected:
  // perftest's.
  static constexpr ibv_gid kIpv6Group{
      .raw = {0xff, 1, 0, 0, 0, 2, 201, 133, 0, 0, 0, 0, 0, 0, 0, 0}};
  static constexpr ibv_gid kIpv4Group{
      .raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 91, 2, 3}};
  static constexpr uint32_t kQkey = 0x11111111;

  // The index of 127.0.0.1 or ::1.
  std::optional<uint8_t> loopback(bool ipv4) {
    ibv_gid wanted{};
    wanted.raw[15] = 1;
    if (ipv4) {
      wanted.raw[10] = wanted.raw[11] = 0xff;
      wanted.raw[12] = 127;
    }
    for (int i = 0; i < 64; ++i) {
      ibv_gid gid;
      if (ibv_query_gid(context_, 1, i, &gid) != 0) break;
      if (std::memcmp(&gid, &wanted, sizeof gid) == 0) return static_cast<uint8_t>(i);
    }
    return std::nullopt;
  }

  ibv_qp* make_datagram_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* const qp = ibv_create_qp(pd_, &init);
    EXPECT_NE(qp, nullptr);
    qps_.push_back(qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    EXPECT_EQ(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
  }

  // Whether what is sent from there to the group arrives.
  void expect_reached(ibv_qp* member, ibv_qp* sender, uint8_t from, const ibv_gid& group) {
    std::array<uint8_t, 128> to{};
    std::array<uint8_t, 8> what{'g', 'r', 'o', 'u', 'p'};
    ibv_mr* const mr = take(reg(to.data(), to.size()));
    ibv_mr* const source = take(reg(what.data(), what.size()));
    ibv_sge room = sge_of(to.data(), to.size(), mr);
    ibv_recv_wr recv{};
    recv.wr_id = 5;
    recv.sg_list = &room;
    recv.num_sge = 1;
    ibv_recv_wr* bad_recv = nullptr;
    ASSERT_EQ(ibv_post_recv(member, &recv, &bad_recv), 0);
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = group;
    attr.grh.sgid_index = from;
    ibv_ah* const ah = ibv_create_ah(pd_, &attr);
    ASSERT_NE(ah, nullptr) << std::strerror(errno);
    ibv_sge sge = sge_of(what.data(), what.size(), source);
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.sg_list = &sge;
    send.num_sge = 1;
    send.wr.ud = {.ah = ah, .remote_qpn = 0xffffff, .remote_qkey = kQkey};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(sender, &send, &bad), 0);
    const ibv_wc wc = completion();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 5u);
    EXPECT_EQ(wc.byte_len, 40u + what.size());
    EXPECT_EQ(to[40], 'g');
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dereg_mr(source), 0);
  }
};

TEST_F(VerbsMulticast, AnIpv6GroupIsReachedFromLoopbackOfEitherFamily) {
  ibv_qp* const member = make_datagram_qp();
  ibv_qp* const sender = make_datagram_qp();
  ASSERT_EQ(ibv_attach_mcast(member, &kIpv6Group, 0), 0) << std::strerror(errno);
  EXPECT_EQ(ibv_attach_mcast(member, &kIpv6Group, 0), 0) << "twice is once";
  for (const bool ipv4 : {true, false}) {
    SCOPED_TRACE(ipv4 ? "127.0.0.1" : "::1");
    if (const auto from = loopback(ipv4)) expect_reached(member, sender, *from, kIpv6Group);
  }
  std::erase(qps_, member);
  EXPECT_EQ(ibv_destroy_qp(member), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(member, &kIpv6Group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(member, &kIpv6Group, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(member), 0);
}

TEST_F(VerbsMulticast, AnIpv4GroupIsReachedFromIpv4Alone) {
  ibv_qp* const member = make_datagram_qp();
  ASSERT_EQ(ibv_attach_mcast(member, &kIpv4Group, 0), 0) << std::strerror(errno);
  const auto from = loopback(true);
  ASSERT_TRUE(from.has_value());
  expect_reached(member, make_datagram_qp(), *from, kIpv4Group);
  if (const auto ipv6 = loopback(false)) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = kIpv4Group;
    attr.grh.sgid_index = *ipv6;
    EXPECT_EQ(ibv_create_ah(pd_, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_detach_mcast(member, &kIpv4Group, 0), 0);
}

}  // namespace
}  // namespace verbena::verbs
