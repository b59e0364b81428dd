// SPDX-License-Identifier: Apache-2.0
// Without a channel: calls that wait; endpoints and what rdma_getaddrinfo() finds for them.
#include <thread>

#include <netdb.h>

#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

class RdmacmEndpoint : public Pair {
 protected:
  static rdma_addrinfo* look_up(const char* node, const char* service, const rdma_addrinfo& hints) {
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(node, service, &hints, &found), 0);
    return found;
  }
  // Listens, with queue pairs for those who come.
  static rdma_cm_id* make_listener(rdma_port_space space, ibv_qp_type type) {
    rdma_addrinfo hints{};
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = space;
    hints.ai_qp_type = type;
    rdma_addrinfo* const found = look_up("127.0.0.1", "0", hints);
    ibv_qp_init_attr init = attributes(type);
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_ep(&id, found, nullptr, &init), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_listen(id, 0), 0);
    rdma_freeaddrinfo(found);
    return id;
  }
  static rdma_cm_id* make_active(rdma_cm_id* listener, rdma_port_space space, ibv_qp_type type) {
    rdma_addrinfo hints{};
    hints.ai_port_space = space;
    hints.ai_qp_type = type;
    const std::string port = std::to_string(ntohs(rdma_get_src_port(listener)));
    rdma_addrinfo* const found = look_up("127.0.0.1", port.c_str(), hints);
    ibv_qp_init_attr init = attributes(type);
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_ep(&id, found, nullptr, &init), 0) << std::strerror(errno);
    rdma_freeaddrinfo(found);
    return id;
  }
};

// Nor is one of libfabric's, whose server names no address and then looks for an interface.
TEST_F(RdmacmEndpoint, AListenerAtLoopbackIsOfNoDevice) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* const found = look_up("127.0.0.1", "0", hints);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_ep(&id, found, nullptr, nullptr), 0);
  EXPECT_EQ(id->verbs, nullptr);
  rdma_freeaddrinfo(found);
  rdma_destroy_ep(id);
}

TEST_F(RdmacmEndpoint, EachCallWaitsForItsEvent) {
  rdma_cm_id* const listener = make_listener(RDMA_PS_TCP, IBV_QPT_RC);
  rdma_cm_id* passive = nullptr;
  std::thread server([&] {
    ASSERT_EQ(rdma_get_request(listener, &passive), 0);
    EXPECT_NE(passive->qp, nullptr);
    EXPECT_EQ(passive->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_NE(passive->channel, listener->channel);
    ASSERT_EQ(rdma_accept(passive, nullptr), 0) << std::strerror(errno);
    EXPECT_EQ(passive->event->event, RDMA_CM_EVENT_ESTABLISHED);
  });
  rdma_cm_id* const active = make_active(listener, RDMA_PS_TCP, IBV_QPT_RC);
  ASSERT_EQ(rdma_connect(active, nullptr), 0) << std::strerror(errno);
  EXPECT_EQ(active->event->event, RDMA_CM_EVENT_ESTABLISHED);
  server.join();
  send_a_word(active, passive);
  EXPECT_EQ(rdma_disconnect(active), 0);
  EXPECT_EQ(active->event->event, RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(passive), 0);
  EXPECT_EQ(rdma_disconnect(passive), 0);  // nothing more to wait for
  rdma_destroy_ep(active);
  rdma_destroy_ep(passive);
  rdma_destroy_ep(listener);
}

TEST_F(RdmacmEndpoint, ARefusalIsAnError) {
  rdma_cm_id* const listener = make_listener(RDMA_PS_TCP, IBV_QPT_RC);
  rdma_cm_id* passive = nullptr;
  std::thread server([&] {
    ASSERT_EQ(rdma_get_request(listener, &passive), 0);
    EXPECT_EQ(rdma_reject(passive, "no", 2), 0);
  });
  rdma_cm_id* const active = make_active(listener, RDMA_PS_TCP, IBV_QPT_RC);
  EXPECT_FAILS(rdma_connect(active, nullptr), ECONNREFUSED);
  EXPECT_EQ(active->event->event, RDMA_CM_EVENT_REJECTED);
  server.join();
  rdma_destroy_ep(active);
  rdma_destroy_ep(passive);
  rdma_destroy_ep(listener);
}

TEST_F(RdmacmEndpoint, XrcWithItsTargetAndSharedReceiveQueue) {
  rdma_cm_id* const listener = make_listener(RDMA_PS_IB, IBV_QPT_XRC_RECV);
  rdma_cm_id* passive = nullptr;
  std::array<char, 16> there{};
  ibv_mr* got = nullptr;
  std::thread server([&] {
    ASSERT_EQ(rdma_get_request(listener, &passive), 0);
    EXPECT_EQ(passive->qp->qp_type, IBV_QPT_XRC_RECV);
    ibv_srq_init_attr init{};
    init.attr.max_wr = init.attr.max_sge = 1;
    ASSERT_EQ(rdma_create_srq(passive, nullptr, &init), 0) << std::strerror(errno);
    EXPECT_FAILS(rdma_create_srq(passive, nullptr, &init), EINVAL);  // has one
    uint32_t number = 0;
    ASSERT_EQ(ibv_get_srq_num(passive->srq, &number), 0);
    got = rdma_reg_msgs(passive, there.data(), there.size());
    ASSERT_EQ(rdma_post_recv(passive, nullptr, there.data(), there.size(), got), 0);
    rdma_conn_param params{};
    params.private_data = &number;
    params.private_data_len = sizeof number;
    ASSERT_EQ(rdma_accept(passive, &params), 0) << std::strerror(errno);
  });
  rdma_cm_id* const active = make_active(listener, RDMA_PS_IB, IBV_QPT_XRC_SEND);
  ASSERT_EQ(rdma_connect(active, nullptr), 0) << std::strerror(errno);
  server.join();
  std::array<char, 16> here{"to the queue"};
  ibv_sge piece{reinterpret_cast<uintptr_t>(here.data()), here.size(), 0};
  ibv_send_wr wr{};
  wr.sg_list = &piece;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_INLINE;  // as much as an entry of the list takes
  std::memcpy(&wr.qp_type.xrc.remote_srqn, active->event->param.conn.private_data, 4);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(active->qp, &wr, &bad), 0);
  ibv_wc wc{};
  ASSERT_EQ(rdma_get_recv_comp(passive, &wc), 1);
  EXPECT_STREQ(there.data(), "to the queue");
  ASSERT_EQ(rdma_get_send_comp(active, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_disconnect(active), 0);
  EXPECT_EQ(rdma_dereg_mr(got), 0);
  rdma_destroy_ep(active);
  rdma_destroy_ep(passive);
  rdma_destroy_ep(listener);
}

TEST_F(RdmacmEndpoint, RequestsAreForThoseWhoWait) {
  rdma_cm_id* id = nullptr;
  EXPECT_FAILS(rdma_get_request(make_id(), &id), EINVAL);  // has a channel
  EXPECT_FAILS(rdma_get_request(nullptr, &id), EINVAL);
}

TEST_F(RdmacmEndpoint, WhatIsFoundForNames) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_UDP;
  rdma_addrinfo* found = look_up("127.0.0.1", "7471", hints);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(*Address::read(found->ai_dst_addr), at("127.0.0.1", 7471));
  EXPECT_EQ(*Address::read(found->ai_src_addr), at("127.0.0.1"));  // by the route
  rdma_freeaddrinfo(found);

  hints = {};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_family = AF_INET6;
  found = look_up(nullptr, "7471", hints);
  EXPECT_EQ(*Address::read(found->ai_src_addr), at("::", 7471));
  EXPECT_EQ(found->ai_dst_addr, nullptr);
  EXPECT_EQ(found->ai_port_space, RDMA_PS_TCP);
  rdma_freeaddrinfo(found);

  const Address from = at("127.0.0.1");
  const Address to = at("127.0.0.1", 99);
  hints = {};
  hints.ai_src_addr = raw(from);
  hints.ai_src_len = from.length();
  hints.ai_dst_addr = raw(to);
  hints.ai_dst_len = to.length();
  found = look_up(nullptr, nullptr, hints);
  EXPECT_EQ(*Address::read(found->ai_src_addr), from);
  EXPECT_EQ(*Address::read(found->ai_dst_addr), to);
  rdma_freeaddrinfo(found);
}

TEST_F(RdmacmEndpoint, WhatIsNotFoundSaysWhy) {
  rdma_addrinfo* found = nullptr;
  rdma_addrinfo hints{};
  EXPECT_FAILS(rdma_getaddrinfo(nullptr, nullptr, nullptr, &found), EINVAL);
  EXPECT_FAILS(rdma_getaddrinfo("127.0.0.1", "1", nullptr, nullptr), EINVAL);
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_EQ(rdma_getaddrinfo("no number", "1", &hints, &found), EAI_NONAME);
  hints.ai_flags = 1 << 20;
  EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "1", &hints, &found), EAI_BADFLAGS);
  hints = {};
  hints.ai_family = 27;  // AF_IB
  EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "1", &hints, &found), EAI_FAMILY);
  rdma_freeaddrinfo(nullptr);
}

}  // namespace
}  // namespace verbena::rdmacm
