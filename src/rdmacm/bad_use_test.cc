// SPDX-License-Identifier: Apache-2.0
// Calls that make no sense: nothing given, or not now.
#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

class RdmacmBadUse : public Pair {};

TEST_F(RdmacmBadUse, NothingIsGiven) {
  rdma_cm_id* id = nullptr;
  rdma_cm_event* event = nullptr;
  ibv_qp_init_attr init{};
  ibv_qp_attr attr{};
  int mask = 0;
  EXPECT_FAILS(rdma_create_id(channel_, nullptr, nullptr, RDMA_PS_TCP), EINVAL);
  EXPECT_FAILS(rdma_create_id(channel_, &id, nullptr, static_cast<rdma_port_space>(7)), EINVAL);
  EXPECT_FAILS(rdma_destroy_id(nullptr), EINVAL);
  EXPECT_FAILS(rdma_migrate_id(nullptr, channel_), EINVAL);
  EXPECT_FAILS(rdma_get_cm_event(nullptr, &event), EINVAL);
  EXPECT_FAILS(rdma_get_cm_event(channel_, nullptr), EINVAL);
  EXPECT_FAILS(rdma_ack_cm_event(nullptr), EINVAL);
  EXPECT_FAILS(rdma_bind_addr(make_id(), nullptr), EINVAL);
  EXPECT_FAILS(rdma_resolve_addr(make_id(), nullptr, nullptr, 1), EINVAL);
  EXPECT_FAILS(rdma_resolve_route(nullptr, 1), EINVAL);
  EXPECT_FAILS(rdma_create_qp(nullptr, nullptr, &init), EINVAL);
  EXPECT_FAILS(rdma_create_qp(make_id(), nullptr, nullptr), EINVAL);
  EXPECT_FAILS(rdma_create_qp_ex(make_id(), nullptr), EINVAL);
  EXPECT_FAILS(rdma_create_srq(make_id(), nullptr, nullptr), EINVAL);
  EXPECT_FAILS(rdma_init_qp_attr(nullptr, &attr, &mask), EINVAL);
  EXPECT_FAILS(rdma_listen(nullptr, 1), EINVAL);
  EXPECT_FAILS(rdma_connect(nullptr, nullptr), EINVAL);
  EXPECT_FAILS(rdma_accept(nullptr, nullptr), EINVAL);
  EXPECT_FAILS(rdma_reject(nullptr, nullptr, 0), EINVAL);
  EXPECT_FAILS(rdma_establish(nullptr), EINVAL);
  EXPECT_FAILS(rdma_disconnect(nullptr), EINVAL);
  EXPECT_FAILS(rdma_notify(nullptr, IBV_EVENT_COMM_EST), EINVAL);
  EXPECT_FAILS(rdma_create_ep(nullptr, nullptr, nullptr, nullptr), EINVAL);
  rdma_destroy_qp(nullptr);
  rdma_destroy_srq(nullptr);
  rdma_destroy_ep(nullptr);
  rdma_destroy_event_channel(nullptr);
}

TEST_F(RdmacmBadUse, TooEarly) {
  rdma_cm_id* const id = make_id();
  ibv_qp_init_attr init = attributes(IBV_QPT_RC);
  rdma_conn_param params{};
  EXPECT_FAILS(rdma_resolve_route(id, 1), EINVAL);
  EXPECT_FAILS(rdma_create_qp(id, nullptr, &init), EINVAL);  // no device yet
  EXPECT_FAILS(rdma_connect(id, &params), EINVAL);
  EXPECT_FAILS(rdma_accept(id, &params), EINVAL);
  EXPECT_FAILS(rdma_reject(id, nullptr, 0), EINVAL);
  EXPECT_FAILS(rdma_establish(id), EINVAL);
  EXPECT_FAILS(rdma_disconnect(id), EINVAL);
  EXPECT_FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
  EXPECT_EQ(rdma_get_src_port(id), 0);
}

TEST_F(RdmacmBadUse, TooLate) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  const Connected both = connect(listener);
  const Address here = at("127.0.0.1", 7);
  rdma_conn_param params{};
  ibv_qp_init_attr init = attributes(IBV_QPT_RC);
  for (rdma_cm_id* const id : {both.active, both.passive}) {
    EXPECT_FAILS(rdma_bind_addr(id, raw(here)), EINVAL);
    EXPECT_FAILS(rdma_resolve_addr(id, nullptr, raw(here), 1), EINVAL);
    EXPECT_FAILS(rdma_resolve_route(id, 1), EINVAL);
    EXPECT_FAILS(rdma_create_qp(id, nullptr, &init), EINVAL);  // has one
    EXPECT_FAILS(rdma_listen(id, 1), EINVAL);
    EXPECT_FAILS(rdma_connect(id, &params), EINVAL);
    EXPECT_FAILS(rdma_accept(id, &params), EINVAL);
    EXPECT_FAILS(rdma_reject(id, nullptr, 0), EINVAL);
  }
  EXPECT_FAILS(rdma_resolve_addr(listener, nullptr, raw(here), 1), EINVAL);
}

TEST_F(RdmacmBadUse, QueuePairsOfOthers) {
  rdma_cm_id* const id = resolve(at("127.0.0.1", 7), RDMA_PS_TCP, false);
  ibv_context* const other = ibv_open_device(id->verbs->device);
  ASSERT_NE(other, nullptr);
  ibv_pd* const pd = ibv_alloc_pd(other);
  ibv_qp_init_attr init = attributes(IBV_QPT_RC);
  EXPECT_FAILS(rdma_create_qp(id, pd, &init), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
  init.cap.max_send_wr = 1 << 30;
  errno = 0;
  EXPECT_EQ(rdma_create_qp(id, nullptr, &init), -1);
  EXPECT_NE(errno, 0);
  EXPECT_EQ(id->send_cq, nullptr);  // nothing is left of it
  EXPECT_EQ(id->send_cq_channel, nullptr);
  EXPECT_EQ(id->recv_cq, nullptr);
}

TEST_F(RdmacmBadUse, TheDeviceIsTheIds) {
  int count = 0;
  ibv_context** const all = rdma_get_devices(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(all[0], resolve(at("127.0.0.1", 7))->verbs);
  EXPECT_EQ(all[1], nullptr);
  rdma_free_devices(all);
}

TEST_F(RdmacmBadUse, WhatIsNotOffered) {
  rdma_cm_id* const id = make_id();
  EXPECT_FAILS(rdma_set_local_ece(id, nullptr), EOPNOTSUPP);
  EXPECT_FAILS(rdma_get_remote_ece(id, nullptr), EOPNOTSUPP);
  EXPECT_FAILS(rdma_reject_ece(id, nullptr, 0), EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::rdmacm
