// SPDX-License-Identifier: Apache-2.0
// Connections with an event channel: made, refused, ended.
#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

class RdmacmConnect : public Pair {};

TEST_F(RdmacmConnect, WithPrivateDataBothWaysAndMessagesThenAnEnd) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  rdma_cm_id* const active = resolve(of_listener(listener));
  EXPECT_EQ(active->route.num_paths, 1);
  EXPECT_EQ(active->route.path_rec->pkey, htons(0xffff));
  EXPECT_EQ(state_of(active->qp), IBV_QPS_INIT);
  const std::string question(56, 'q');
  rdma_conn_param params = saying(question);
  params.initiator_depth = 3;
  params.responder_resources = 5;
  ASSERT_EQ(rdma_connect(active, &params), 0);

  const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(asked.listen_id, listener);
  EXPECT_EQ(asked.id->context, this);
  EXPECT_EQ(asked.id->verbs, active->verbs);
  EXPECT_EQ(asked.data, question);
  EXPECT_EQ(asked.conn.responder_resources, 3);
  EXPECT_EQ(asked.conn.initiator_depth, 5);
  EXPECT_EQ(asked.conn.qp_num, active->qp->qp_num);
  EXPECT_EQ(asked.conn.retry_count, 7);
  EXPECT_EQ(rdma_get_src_port(asked.id), rdma_get_src_port(listener));
  EXPECT_EQ(rdma_get_dst_port(asked.id), rdma_get_src_port(active));
  add_qp(asked.id);
  rdma_conn_param reply = saying("answer");
  reply.initiator_depth = 2;
  reply.responder_resources = 3;
  ASSERT_EQ(rdma_accept(asked.id, &reply), 0);
  for (int i = 0; i < 2; ++i) {
    const Told told = expect(RDMA_CM_EVENT_ESTABLISHED);
    if (told.id != active) continue;
    EXPECT_EQ(told.data.size(), 196u);
    EXPECT_EQ(told.data.substr(0, 7), std::string("answer\0", 7));
    EXPECT_EQ(told.conn.responder_resources, 2);
    EXPECT_EQ(told.conn.initiator_depth, 3);
  }
  EXPECT_EQ(state_of(active->qp), IBV_QPS_RTS);
  EXPECT_EQ(state_of(asked.id->qp), IBV_QPS_RTS);
  send_a_word(active, asked.id);
  send_a_word(asked.id, active);

  ASSERT_EQ(rdma_disconnect(active), 0);
  EXPECT_EQ(state_of(active->qp), IBV_QPS_ERR);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(asked.id), 0);
  EXPECT_EQ(state_of(asked.id->qp), IBV_QPS_ERR);
}

// What the passive side can take or wants to ask bounds the active side's queue pair.
TEST_F(RdmacmConnect, TheAnswerBoundsReadsAndAtomics) {
  const auto limits_of = [](ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
              0);
    return std::pair<int, int>(attr.max_rd_atomic, attr.max_dest_rd_atomic);
  };
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  rdma_cm_id* const active = resolve(of_listener(listener));
  rdma_conn_param params = saying("");
  params.initiator_depth = 6;
  params.responder_resources = 5;
  ASSERT_EQ(rdma_connect(active, &params), 0);
  const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  add_qp(asked.id);
  rdma_conn_param reply = saying("");
  reply.initiator_depth = 2;
  reply.responder_resources = 3;
  ASSERT_EQ(rdma_accept(asked.id, &reply), 0);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(limits_of(active->qp), std::pair(3, 2));
  EXPECT_EQ(limits_of(asked.id->qp), std::pair(2, 3));
}

TEST_F(RdmacmConnect, OverIpv6) {
  const Connected both = connect(listen(at("::1")));
  EXPECT_EQ(rdma_get_peer_addr(both.passive)->sa_family, AF_INET6);
  send_a_word(both.active, both.passive);
}

TEST_F(RdmacmConnect, ToAListenerOnAllAddresses) {
  rdma_cm_id* const listener = listen(at("0.0.0.0"));
  EXPECT_EQ(listener->verbs, nullptr);  // of no device
  EXPECT_NE(rdma_get_src_port(listener), 0);
  rdma_cm_id* const active = resolve(at("127.0.0.1", ntohs(rdma_get_src_port(listener))));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(*Address::read(rdma_get_local_addr(asked.id)),
            at("127.0.0.1", ntohs(rdma_get_src_port(listener))));
}

TEST_F(RdmacmConnect, RefusedWithPrivateData) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  rdma_cm_id* const active = resolve(of_listener(listener));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  const std::string no(148, 'n');
  ASSERT_EQ(rdma_reject(passive, no.data(), 148), 0);
  const Told told = expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(told.id, active);
  EXPECT_EQ(told.status, 28);  // by the program
  EXPECT_EQ(told.data, no);
  EXPECT_EQ(state_of(active->qp), IBV_QPS_ERR);
  EXPECT_FAILS(rdma_accept(passive, &params), EINVAL);
  EXPECT_FAILS(rdma_connect(active, &params), EINVAL);
}

TEST_F(RdmacmConnect, RefusedWhereNobodyListens) {
  rdma_cm_id* const active = resolve(at("127.0.0.1", 1));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).status, 8);  // invalid service id
}

TEST_F(RdmacmConnect, ByAnIdWithoutQueuePairInStepsOfItsOwn) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  rdma_cm_id* const active = resolve(of_listener(listener), RDMA_PS_TCP, false);
  rdma_cm_id* const helper = resolve(of_listener(listener));  // whose queue pair it uses
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  EXPECT_FAILS(rdma_init_qp_attr(active, &attr, &mask), EINVAL);  // no peer yet
  rdma_conn_param params = saying("");
  params.qp_num = helper->qp->qp_num;
  EXPECT_FAILS(rdma_connect(active, nullptr), EINVAL);
  ASSERT_EQ(rdma_connect(active, &params), 0);
  const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(asked.conn.qp_num, params.qp_num);
  add_qp(asked.id);
  rdma_conn_param reply = saying("");
  EXPECT_FAILS(rdma_establish(active), EINVAL);
  ASSERT_EQ(rdma_accept(asked.id, &reply), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_CONNECT_RESPONSE).conn.qp_num, asked.id->qp->qp_num);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    attr.qp_state = state;
    ASSERT_EQ(rdma_init_qp_attr(active, &attr, &mask), 0);
    ASSERT_EQ(ibv_modify_qp(helper->qp, &attr, mask), 0) << state;
  }
  EXPECT_FAILS(rdma_establish(asked.id), EINVAL);  // has a queue pair
  ASSERT_EQ(rdma_establish(active), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_ESTABLISHED).id, asked.id);
  send_a_word(helper, asked.id);
}

TEST_F(RdmacmConnect, TheAnswerCanBeRefusedToo) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))), RDMA_PS_TCP, false);
  rdma_conn_param params = saying("");
  params.qp_num = 77;
  ASSERT_EQ(rdma_connect(active, &params), 0);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  add_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_reject(active, nullptr, 0), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).id, passive);
}

TEST_F(RdmacmConnect, DataThatArrivesFirstEstablishesIt) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))), RDMA_PS_TCP, false);
  rdma_conn_param params = saying("");
  params.qp_num = 77;
  ASSERT_EQ(rdma_connect(active, &params), 0);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  EXPECT_FAILS(rdma_notify(passive, IBV_EVENT_COMM_EST), EINVAL);
  add_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_FAILS(rdma_notify(passive, IBV_EVENT_QP_FATAL), EINVAL);
  ASSERT_EQ(rdma_notify(passive, IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(expect(RDMA_CM_EVENT_ESTABLISHED).id, passive);
  EXPECT_FAILS(rdma_notify(passive, IBV_EVENT_COMM_EST), EISCONN);
}

TEST_F(RdmacmConnect, EndedByTheAcceptingEndBeforeItIsEstablished) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  add_qp(passive);
  EXPECT_EQ(rdma_disconnect(passive), 0);  // nothing to end: it can still be refused
  EXPECT_EQ(state_of(passive->qp), IBV_QPS_ERR);
  rdma_destroy_qp(passive);
  add_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  // Here is the peer's thread, too, and it has not looked at the answer: nothing is established.
  EXPECT_EQ(rdma_disconnect(passive), 0);
  EXPECT_EQ(state_of(passive->qp), IBV_QPS_ERR);
  bool ended = false;
  bool heard = false;
  while ((!ended || !heard) && !HasFailure()) {
    const Told told = next();
    if (told.id == passive) {
      EXPECT_EQ(told.event, RDMA_CM_EVENT_DISCONNECTED) << rdma_event_str(told.event);
      ended = true;
    } else if (told.event != RDMA_CM_EVENT_ESTABLISHED) {  // it may be faster than the DREQ
      EXPECT_TRUE(told.event == RDMA_CM_EVENT_CONNECT_ERROR ||
                  told.event == RDMA_CM_EVENT_DISCONNECTED)
          << rdma_event_str(told.event);
      heard = true;
    }
  }
  EXPECT_EQ(rdma_disconnect(passive), 0);
  EXPECT_EQ(rdma_disconnect(active), 0);
}

TEST_F(RdmacmConnect, EndedByTheAskingEndBeforeItIsEstablished) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  EXPECT_EQ(rdma_disconnect(active), 0);
  EXPECT_EQ(state_of(active->qp), IBV_QPS_ERR);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  add_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  // A queue pair that was flushed makes no connection.
  EXPECT_EQ(expect(RDMA_CM_EVENT_CONNECT_ERROR).id, active);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).id, passive);
}

TEST_F(RdmacmConnect, AnIdThatIsDestroyedTellsItsPeer) {
  const Connected both = connect(listen(at("127.0.0.1")));
  destroy(both.active);
  EXPECT_EQ(expect(RDMA_CM_EVENT_DISCONNECTED).id, both.passive);
}

// It waits for completions that came before it to be polled, but not for ever.
TEST_F(RdmacmConnect, TheEndIsToldThoughNobodyPolls) {
  const Connected both = connect(listen(at("127.0.0.1")));
  std::array<char, 16> words{"a word"};
  ibv_mr* const sent = rdma_reg_msgs(both.active, words.data(), words.size());
  ibv_mr* const got = rdma_reg_msgs(both.passive, words.data(), words.size());
  ASSERT_EQ(rdma_post_recv(both.passive, nullptr, words.data(), words.size(), got), 0);
  ASSERT_EQ(rdma_post_send(both.active, nullptr, words.data(), words.size(), sent, 0), 0);
  ibv_wc wc{};
  ASSERT_EQ(rdma_get_recv_comp(both.passive, &wc), 1);
  ASSERT_EQ(rdma_disconnect(both.passive), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  ASSERT_EQ(rdma_get_send_comp(both.active, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_dereg_mr(sent), 0);
  EXPECT_EQ(rdma_dereg_mr(got), 0);
}

TEST_F(RdmacmConnect, ARequestThatNobodyGotEndsWithItsListener) {
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  rdma_cm_id* const active = resolve(of_listener(listener));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  ASSERT_TRUE(is_readable(channel_, kPatienceMs));
  destroy(listener);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).id, active);
}

TEST_F(RdmacmConnect, WhatDoesNotFitIsRefused) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))));
  const std::string much(200, 'x');
  rdma_conn_param params = saying(std::string_view(much).substr(0, 57));
  EXPECT_FAILS(rdma_connect(active, &params), EINVAL);
  params = saying("");
  params.responder_resources = 200;  // more than the device has
  EXPECT_FAILS(rdma_connect(active, &params), EINVAL);
  params.responder_resources = RDMA_MAX_RESP_RES;  // as many as it has
  params.initiator_depth = RDMA_MAX_INIT_DEPTH;
  ASSERT_EQ(rdma_connect(active, &params), 0);
  const Told asked = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(active->verbs, &device), 0);
  EXPECT_EQ(asked.conn.responder_resources, device.max_qp_init_rd_atom);
  EXPECT_EQ(asked.conn.initiator_depth, device.max_qp_rd_atom);
  add_qp(asked.id);
  params.private_data = much.data();
  params.private_data_len = 197;
  EXPECT_FAILS(rdma_accept(asked.id, &params), EINVAL);
  EXPECT_FAILS(rdma_reject(asked.id, much.data(), 149), EINVAL);
  EXPECT_EQ(rdma_reject(asked.id, much.data(), 148), 0);
}

TEST_F(RdmacmConnect, AThousandAtOnce) {
  constexpr int kMany = 1000;
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  ibv_cq* cq = nullptr;
  const auto give_qp = [&](rdma_cm_id* id) {
    if (cq == nullptr) cq = ibv_create_cq(id->verbs, 8, nullptr, nullptr, 0);
    ibv_qp_init_attr init = attributes(IBV_QPT_RC);
    init.send_cq = init.recv_cq = cq;
    ASSERT_EQ(rdma_create_qp(id, nullptr, &init), 0);
    EXPECT_EQ(id->send_cq, nullptr);  // the program's own
  };
  const Address to = of_listener(listener);
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(rdma_resolve_addr(make_id(), nullptr, raw(to), 1), 0);
  rdma_conn_param params = saying("");
  int established = 0;
  while (established < 2 * kMany && !HasFailure()) {
    const Told told = next();
    switch (told.event) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        give_qp(told.id);
        ASSERT_EQ(rdma_resolve_route(told.id, 1), 0);
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: ASSERT_EQ(rdma_connect(told.id, &params), 0); break;
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        give_qp(told.id);
        ASSERT_EQ(rdma_accept(told.id, &params), 0);
        break;
      case RDMA_CM_EVENT_ESTABLISHED: ++established; break;
      default:                        FAIL() << rdma_event_str(told.event) << " " << told.status;
    }
  }
  while (!ids_.empty()) destroy(ids_.back());
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace verbena::rdmacm
