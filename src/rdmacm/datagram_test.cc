// SPDX-License-Identifier: Apache-2.0
// Datagrams: finding the peer's queue pair, and groups.
#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

class RdmacmDatagram : public Pair {
 protected:
  static constexpr size_t kGrh = 40;

  struct Buffer {
    explicit Buffer(rdma_cm_id* id) : mr(rdma_reg_msgs(id, bytes.data(), bytes.size())) {}
    ~Buffer() { EXPECT_EQ(rdma_dereg_mr(mr), 0); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::array<char, 128> bytes{};
    ibv_mr* mr;
  };

  static void send(rdma_cm_id* from, const rdma_ud_param& to) {
    Buffer buffer(from);
    std::strcpy(buffer.bytes.data(), "a datagram");
    ibv_ah_attr way = to.ah_attr;
    ibv_ah* const ah = ibv_create_ah(from->pd, &way);
    ASSERT_NE(ah, nullptr) << std::strerror(errno);
    ASSERT_EQ(
        rdma_post_ud_send(from, nullptr, buffer.bytes.data(), 16, buffer.mr, 0, ah, to.qp_num), 0);
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_send_comp(from, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  static void post(rdma_cm_id* id, Buffer& buffer) {
    ASSERT_EQ(rdma_post_recv(id, nullptr, buffer.bytes.data(), buffer.bytes.size(), buffer.mr), 0);
  }
  static void receive(rdma_cm_id* id, Buffer& buffer) {
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_STREQ(buffer.bytes.data() + kGrh, "a datagram");
  }
  rdma_cm_id* bound_with_qp() {
    rdma_cm_id* const id = make_id(RDMA_PS_UDP);
    const Address here = at("127.0.0.1");
    EXPECT_EQ(rdma_bind_addr(id, raw(here)), 0);
    add_qp(id);
    return id;
  }
};

TEST_F(RdmacmDatagram, ThePeerTellsItsQueuePair) {
  for (const char* const where : {"127.0.0.1", "::1"}) {
    rdma_cm_id* const listener = listen(at(where), RDMA_PS_UDP);
    rdma_cm_id* const active = resolve(of_listener(listener), RDMA_PS_UDP);
    EXPECT_EQ(state_of(active->qp), IBV_QPS_RTS);
    const std::string question(180, 'q');
    rdma_conn_param params = saying(question);
    ASSERT_EQ(rdma_connect(active, &params), 0);
    const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(asked.listen_id, listener);
    EXPECT_EQ(asked.data, question);
    add_qp(asked.id);
    Buffer buffer(asked.id);
    post(asked.id, buffer);
    const std::string answer(136, 'a');
    params = saying(answer);
    ASSERT_EQ(rdma_accept(asked.id, &params), 0);
    const Told found = expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(found.id, active);
    EXPECT_EQ(found.data, answer);
    EXPECT_EQ(found.ud.qp_num, asked.id->qp->qp_num);
    EXPECT_EQ(found.ud.qkey, uint32_t{RDMA_UDP_QKEY});
    send(active, found.ud);
    receive(asked.id, buffer);
    EXPECT_FAILS(rdma_accept(asked.id, &params), EINVAL);
    EXPECT_FAILS(rdma_disconnect(active), EINVAL);
  }
}

TEST_F(RdmacmDatagram, ThePeerRefuses) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"), RDMA_PS_UDP);
  rdma_cm_id* const active = resolve(of_listener(listener), RDMA_PS_UDP);
  const std::string much(181, 'x');
  rdma_conn_param params = saying(much);
  EXPECT_FAILS(rdma_connect(active, &params), EINVAL);
  params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  ASSERT_EQ(rdma_reject(expect(RDMA_CM_EVENT_CONNECT_REQUEST).id, "no", 2), 0);
  const Told told = expect(RDMA_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(told.status, 2);
  EXPECT_EQ(told.data.substr(0, 2), "no");
}

TEST_F(RdmacmDatagram, AGroupIsHeardByThoseWhoJoin) {
  rdma_cm_id* const speaker = bound_with_qp();
  rdma_cm_id* const hearer = bound_with_qp();
  const Address group = at("239.7.7.7");
  int context = 0;
  ASSERT_EQ(rdma_join_multicast(hearer, raw(group), &context), 0);
  const Told joined = expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(joined.ud.private_data, &context);
  EXPECT_EQ(joined.ud.qp_num, 0xffffffu);
  EXPECT_EQ(joined.ud.qkey, uint32_t{RDMA_UDP_QKEY});
  rdma_cm_join_mc_attr_ex attr{};
  attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attr.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  attr.addr = raw(group);
  ASSERT_EQ(rdma_join_multicast_ex(speaker, &attr, nullptr), 0);
  const Told may_send = expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  Buffer buffer(hearer);
  post(hearer, buffer);
  send(speaker, may_send.ud);
  receive(hearer, buffer);
  EXPECT_EQ(rdma_leave_multicast(hearer, raw(group)), 0);
  EXPECT_FAILS(rdma_leave_multicast(hearer, raw(group)), EADDRNOTAVAIL);
  EXPECT_EQ(rdma_leave_multicast(speaker, raw(group)), 0);
}

TEST_F(RdmacmDatagram, AGroupIsLeftWithTheQueuePairOrBeforeTheEvent) {
  rdma_cm_id* const one = bound_with_qp();
  const Address group = at("239.7.7.8");
  ASSERT_EQ(rdma_join_multicast(one, raw(group), nullptr), 0);
  expect(RDMA_CM_EVENT_MULTICAST_JOIN);
  destroy(one);
  rdma_cm_id* const other = bound_with_qp();
  ASSERT_EQ(rdma_join_multicast(other, raw(group), nullptr), 0);
  EXPECT_EQ(rdma_leave_multicast(other, raw(group)), 0);
  EXPECT_FALSE(is_readable(channel_, 0));
}

TEST_F(RdmacmDatagram, WhatIsNoGroup) {
  rdma_cm_id* const id = bound_with_qp();
  const Address single = at("127.0.0.1");
  const Address group = at("239.7.7.9");
  EXPECT_FAILS(rdma_join_multicast(id, raw(single), nullptr), EINVAL);
  EXPECT_FAILS(rdma_join_multicast(id, nullptr, nullptr), EINVAL);
  EXPECT_FAILS(rdma_join_multicast(make_id(RDMA_PS_UDP), raw(group), nullptr), EINVAL);
  rdma_cm_join_mc_attr_ex attr{};
  attr.addr = raw(group);
  EXPECT_FAILS(rdma_join_multicast_ex(id, &attr, nullptr), EINVAL);
  attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
  EXPECT_FAILS(rdma_join_multicast_ex(id, &attr, nullptr), ENOTSUP);
  attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
  EXPECT_FAILS(rdma_join_multicast_ex(id, &attr, nullptr), EINVAL);
}

}  // namespace
}  // namespace verbena::rdmacm
