// SPDX-License-Identifier: Apache-2.0
// Addresses and ports, and the options about them.
#include "rdmacm/connection.h"
#include "rdmacm/device.h"
#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

class RdmacmBind : public Pair {
 protected:
  static int set(rdma_cm_id* id, int option, int value) {
    return rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof value);
  }
  rdma_cm_id* bind(const Address& address, bool one_family) {
    rdma_cm_id* const id = make_id();
    EXPECT_EQ(set(id, RDMA_OPTION_ID_AFONLY, one_family ? 1 : 0), 0);
    EXPECT_EQ(rdma_bind_addr(id, raw(address)), 0) << std::strerror(errno);
    return id;
  }
  static uint16_t port_of(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }
  // The listener that a request for this address comes to; nullptr if it is refused.
  rdma_cm_id* who_hears(const Address& address) {
    rdma_cm_id* const active = resolve(address);
    rdma_conn_param params = saying("");
    EXPECT_EQ(rdma_connect(active, &params), 0);
    const Told told = next();
    if (told.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      EXPECT_EQ(rdma_reject(told.id, nullptr, 0), 0);
      expect(RDMA_CM_EVENT_REJECTED);
    } else {
      EXPECT_EQ(told.event, RDMA_CM_EVENT_REJECTED);
      EXPECT_EQ(told.status, 8);  // nobody listens
    }
    return told.listen_id;
  }
};

TEST_F(RdmacmBind, ToAPortThatIsFound) {
  rdma_cm_id* const id = make_id();
  const Address any = at("127.0.0.1");
  ASSERT_EQ(rdma_bind_addr(id, raw(any)), 0);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_FAILS(rdma_bind_addr(id, raw(any)), EINVAL);  // is bound
}

TEST_F(RdmacmBind, AnAddressIsOfTheDeviceAndAWildcardIsNot) {
  for (const char* const address : {"127.0.0.1", "::1"}) {
    rdma_cm_id* const id = make_id();
    ASSERT_EQ(rdma_bind_addr(id, raw(at(address))), 0);
    EXPECT_NE(id->verbs, nullptr) << address;
    EXPECT_NE(id->pd, nullptr) << address;
    EXPECT_EQ(id->port_num, 1) << address;
  }
  rdma_cm_id* const any = make_id();
  ASSERT_EQ(rdma_bind_addr(any, raw(at("0.0.0.0"))), 0);
  EXPECT_EQ(any->verbs, nullptr);
}

TEST_F(RdmacmBind, APortIsOnesOwn) {
  rdma_cm_id* const first = listen(at("127.0.0.1"));
  const Address taken = of_listener(first);
  EXPECT_FAILS(rdma_bind_addr(make_id(), raw(taken)), EADDRINUSE);
  const Address all = at("0.0.0.0", taken.port());
  EXPECT_FAILS(rdma_bind_addr(make_id(), raw(all)), EADDRINUSE);
  EXPECT_EQ(rdma_bind_addr(make_id(RDMA_PS_UDP), raw(taken)), 0);  // another space
  destroy(first);
  EXPECT_EQ(rdma_bind_addr(make_id(), raw(taken)), 0);
}

TEST_F(RdmacmBind, ThoseWhoSayReuseShareAndOneListens) {
  rdma_cm_id* const first = make_id();
  rdma_cm_id* const second = make_id();
  ASSERT_EQ(set(first, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  ASSERT_EQ(set(second, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  const Address any = at("127.0.0.1");
  ASSERT_EQ(rdma_bind_addr(first, raw(any)), 0);
  const Address same = of_listener(first);
  ASSERT_EQ(rdma_bind_addr(second, raw(same)), 0);
  EXPECT_FAILS(rdma_bind_addr(make_id(), raw(same)), EADDRINUSE);
  EXPECT_EQ(rdma_listen(first, 0), 0);
  EXPECT_FAILS(rdma_listen(second, 0), EADDRINUSE);
  EXPECT_FAILS(set(first, RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);  // too late
}

// The host has no place left for who listens: that is said, and not that memory is short.
TEST_F(RdmacmBind, AFullTableOfPortsIsSaid) {
  rdma_cm_id* const id = make_id();
  const Address any = at("127.0.0.1");
  ASSERT_EQ(rdma_bind_addr(id, raw(any)), 0);
  cm::Service& service = Device::open()->service();
  std::vector<cm::PortClaim> claims;
  int error = 0;
  for (uint64_t i = 1; error == 0 && i < 10'000; ++i) {
    claims.push_back({.service_id = 0x7777'0000'0000 + i, .address = {}});
    error = service.claim(claims.back());
  }
  EXPECT_EQ(error, ENOSPC);
  claims.pop_back();
  EXPECT_FAILS(rdma_listen(id, 0), ENOSPC);
  for (const cm::PortClaim& claim : claims) service.give_back(claim);
  EXPECT_EQ(rdma_listen(id, 0), 0);
  EXPECT_EQ(errno_of(cm::Error::kTimedOut), ETIMEDOUT);
}

TEST_F(RdmacmBind, OnlyToAddressesOfTheDevice) {
  const Address foreign = at("203.0.113.77");
  EXPECT_FAILS(rdma_bind_addr(make_id(), raw(foreign)), EADDRNOTAVAIL);
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FAILS(rdma_bind_addr(make_id(), &other), EINVAL);
}

TEST_F(RdmacmBind, ListeningBindsIfNeedBe) {
  rdma_cm_id* const id = make_id();
  ASSERT_EQ(rdma_listen(id, 5), 0);
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_FAILS(rdma_listen(id, 5), EINVAL);
}

TEST_F(RdmacmBind, AListenerOfOneFamilyDoesNotHearTheOther) {
  rdma_cm_id* const listener = bind(at("::"), true);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  EXPECT_EQ(who_hears(at("127.0.0.1", port_of(listener))), nullptr);
  EXPECT_EQ(who_hears(at("::1", port_of(listener))), listener);
}

TEST_F(RdmacmBind, TheIpv4WildcardIsOfOneFamilyUnlessToldOtherwise) {
  rdma_cm_id* const listener = listen(at("0.0.0.0"));
  EXPECT_EQ(who_hears(at("::1", port_of(listener))), nullptr);
  EXPECT_EQ(who_hears(at("127.0.0.1", port_of(listener))), listener);
  rdma_cm_id* const both = bind(at("0.0.0.0"), false);
  ASSERT_EQ(rdma_listen(both, 0), 0);
  EXPECT_EQ(who_hears(at("::1", port_of(both))), both);
}

TEST_F(RdmacmBind, TheIpv6WildcardIsOfBoth) {
  rdma_cm_id* const listener = bind(at("::"), false);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  EXPECT_EQ(who_hears(at("127.0.0.1", port_of(listener))), listener);
  EXPECT_EQ(who_hears(at("::1", port_of(listener))), listener);
  const Address same = at("0.0.0.0", port_of(listener));
  EXPECT_FAILS(rdma_bind_addr(make_id(), raw(same)), EADDRINUSE);
}

TEST_F(RdmacmBind, OnePortForAListenerOfEachFamily) {
  rdma_cm_id* const four = listen(at("0.0.0.0"));
  const uint16_t port = port_of(four);
  rdma_cm_id* const six = bind(at("::", port), true);
  ASSERT_EQ(rdma_listen(six, 0), 0);
  EXPECT_EQ(who_hears(at("127.0.0.1", port)), four);
  EXPECT_EQ(who_hears(at("::1", port)), six);
}

TEST_F(RdmacmBind, TheSourceIsFoundByTheRoute) {
  rdma_cm_id* const id = resolve(at("127.0.0.1", 7));
  EXPECT_EQ(Address::read(rdma_get_local_addr(id))->gid(), at("127.0.0.1").gid());
  EXPECT_NE(rdma_get_src_port(id), 0);
  EXPECT_EQ(rdma_get_dst_port(id), htons(7));
  EXPECT_EQ(id->verbs->device->transport_type, IBV_TRANSPORT_IB);
}

TEST_F(RdmacmBind, ADestinationWithoutARouteIsAnEvent) {
  rdma_cm_id* const id = make_id();
  const Address nowhere = at("255.255.255.255", 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(nowhere), 100), 0);
  const Told told = expect(RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_LT(told.status, 0);
  // It may try again.
  const Address there = at("127.0.0.1", 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(there), 100), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(RdmacmBind, TheBoundAddressIsTheSource) {
  rdma_cm_id* const id = make_id();
  const Address from = at("127.0.0.1");
  ASSERT_EQ(rdma_bind_addr(id, raw(from)), 0);
  const __be16 port = rdma_get_src_port(id);
  const Address six = at("::1", 7);
  EXPECT_FAILS(rdma_resolve_addr(id, nullptr, raw(six), 100), EINVAL);  // the other family
  const Address to = at("127.0.0.1", 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(to), 100), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_get_src_port(id), port);
}

TEST_F(RdmacmBind, TheAcknowledgementsTimeoutAndTheServiceTypeReachTheQueuePair) {
  rdma_cm_id* const active = resolve(of_listener(listen(at("127.0.0.1"))));
  uint8_t timeout = 21;
  uint8_t type = 0x28;
  ASSERT_EQ(rdma_set_option(active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  ASSERT_EQ(rdma_set_option(active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type, 1), 0);
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  add_qp(passive);
  timeout = 15;
  ASSERT_EQ(rdma_set_option(passive, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  expect_established();
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(active->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_AV, &init), 0);
  EXPECT_EQ(attr.timeout, 21);
  EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x28);
  ASSERT_EQ(ibv_query_qp(passive->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_AV, &init), 0);
  EXPECT_EQ(attr.timeout, 15);
  EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x28);
}

TEST_F(RdmacmBind, OptionsThatAreNone) {
  rdma_cm_id* const id = make_id();
  uint8_t byte = 0;
  EXPECT_FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1), EINVAL);
  EXPECT_FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1), EINVAL);
  EXPECT_FAILS(rdma_set_option(id, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS);
  EXPECT_FAILS(rdma_set_option(id, 99, 0, &byte, 1), ENOSYS);
  EXPECT_FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &byte, 1), EOPNOTSUPP);
  byte = 32;
  EXPECT_FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), EINVAL);
}

}  // namespace
}  // namespace verbena::rdmacm
