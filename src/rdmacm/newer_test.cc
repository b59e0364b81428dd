// SPDX-License-Identifier: Apache-2.0
// What librdmacm has gained since rdma-core 44.
#include "rdmacm/newer.h"

#include <cstring>
#include <thread>

#include <arpa/inet.h>

#include "rdmacm/pair_fixture.h"

extern "C" {
int rdma_resolve_addrinfo(rdma_cm_id*, const char*, const char*, const rdma_addrinfo*);
int rdma_query_addrinfo(rdma_cm_id*, rdma_addrinfo**);
int rdma_write_cm_event(rdma_cm_id*, rdma_cm_event_type, int, uint64_t);
}

namespace verbena::rdmacm {
namespace {

class RdmacmNewer : public Pair {};

TEST_F(RdmacmNewer, AnEventOfTheProgramsOwnWakesWhoWaits) {
  rdma_cm_id* const id = make_id();
  rdma_cm_event* event = nullptr;
  std::thread waiter([&] { EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0); });
  EXPECT_EQ(rdma_write_cm_event(id, event_type(kEventUser), -7, 0x1234'5678'9abc'def0), 0);
  waiter.join();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(static_cast<int>(event->event), kEventUser);
  EXPECT_EQ(event->id, id);
  EXPECT_EQ(event->status, -7);
  uint64_t argument = 0;
  std::memcpy(&argument, &event->param, sizeof argument);
  EXPECT_EQ(argument, 0x1234'5678'9abc'def0u);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  // Those of connections are not the program's to make.
  EXPECT_FAILS(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
  EXPECT_FAILS(rdma_write_cm_event(nullptr, event_type(kEventUser), 0, 0), EINVAL);
  EXPECT_FALSE(is_readable(channel_, 0));
}

TEST_F(RdmacmNewer, AddressesComeAsAnEvent) {
  rdma_cm_id* const id = make_id();
  rdma_addrinfo* found = nullptr;
  EXPECT_FAILS(rdma_query_addrinfo(id, &found), ENOENT);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST | kAskNames;
  hints.ai_port_space = RDMA_PS_TCP;
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
  EXPECT_FAILS(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), EBUSY);
  expect(event_type(kEventAddrinfoResolved));
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->ai_family, AF_INET);
  const auto* const to = reinterpret_cast<const sockaddr_in*>(found->ai_dst_addr);
  EXPECT_EQ(to->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(to->sin_port, htons(7471));
  rdma_freeaddrinfo(found);
  EXPECT_FAILS(rdma_query_addrinfo(id, &found), ENOENT);
  // Again; what nobody asks for goes with the id.
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", nullptr), 0);
  expect(event_type(kEventAddrinfoResolved));
}

TEST_F(RdmacmNewer, AddressesThatAreNoneAreNoEvent) {
  rdma_cm_id* const id = make_id();
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_FAILS(rdma_resolve_addrinfo(id, "not-an-address", "1", &hints), ENOENT);
  hints.ai_flags = kAskSubnet;
  EXPECT_FAILS(rdma_resolve_addrinfo(id, nullptr, "1", &hints), EOPNOTSUPP);
  EXPECT_FALSE(is_readable(channel_, 0));
  // And the id can go on.
  EXPECT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", nullptr, nullptr), 0);
  expect(event_type(kEventAddrinfoResolved));
}

TEST_F(RdmacmNewer, AnIdWithoutAChannelWaits) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", nullptr), 0);
  ASSERT_EQ(rdma_query_addrinfo(id, &found), 0);
  rdma_freeaddrinfo(found);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmacmNewer, EventsHaveWords) {
  EXPECT_STREQ(rdma_event_str(event_type(kEventAddrinfoResolved)),
               "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
  EXPECT_STREQ(rdma_event_str(event_type(99)), "UNKNOWN EVENT");
}

}  // namespace
}  // namespace verbena::rdmacm
