// SPDX-License-Identifier: Apache-2.0
// For tests: a listener and those who connect to it, in this process, over loopback. Every wait
// ends.
#pragma once

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "rdmacm/address.h"

namespace verbena::rdmacm {

inline constexpr int kPatienceMs = 20'000;

[[nodiscard]] inline Address at(const char* text, uint16_t port = 0) {
  sockaddr_storage raw{};
  if (std::strchr(text, ':') != nullptr) {
    auto& to = reinterpret_cast<sockaddr_in6&>(raw);
    to.sin6_family = AF_INET6;
    ::inet_pton(AF_INET6, text, &to.sin6_addr);
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(raw);
    to.sin_family = AF_INET;
    ::inet_pton(AF_INET, text, &to.sin_addr);
  }
  Address address = *Address::read(reinterpret_cast<const sockaddr*>(&raw));
  address.set_port(port);
  return address;
}

// The calls take pointers to what they do not change.
[[nodiscard]] inline sockaddr* raw(const Address& address) {
  return const_cast<sockaddr*>(address.raw());
}

#define EXPECT_FAILS(call, error) \
  do {                            \
    errno = 0;                    \
    EXPECT_EQ(call, -1);          \
    EXPECT_EQ(errno, error);      \
  } while (false)

// What an event said, after it was acknowledged.
struct Told {
  rdma_cm_event_type event = RDMA_CM_EVENT_DEVICE_REMOVAL;  // never comes
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listen_id = nullptr;
  rdma_conn_param conn{};
  rdma_ud_param ud{};
  std::string data;  // all of the private data, with its padding
};

class Pair : public ::testing::Test {
 protected:
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr);
  }
  void TearDown() override {
    for (rdma_cm_id* const id : ids_) {
      rdma_destroy_qp(id);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(channel_);
  }

  rdma_cm_id* make_id(rdma_port_space space = RDMA_PS_TCP, void* context = nullptr) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, context, space), 0);
    ids_.push_back(id);
    return id;
  }
  void destroy(rdma_cm_id* id) {
    std::erase(ids_, id);
    rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }

  [[nodiscard]] bool is_readable(rdma_event_channel* channel, int patience_ms) {
    pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, patience_ms) == 1;
  }
  // The next event, acknowledged.
  Told next() { return next(channel_); }
  Told next(rdma_event_channel* channel) {
    Told told;
    rdma_cm_event* event = nullptr;
    if (!is_readable(channel, kPatienceMs)) {
      ADD_FAILURE() << "no event came";
      return told;
    }
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0);
    told = {event->event, event->status, event->id, event->listen_id, {}, {}, {}};
    const bool datagram = event->id->qp_type == IBV_QPT_UD;
    if (datagram) told.ud = event->param.ud;
    if (!datagram) told.conn = event->param.conn;
    const auto* const data =
        static_cast<const char*>(datagram ? told.ud.private_data : told.conn.private_data);
    const size_t length = datagram ? told.ud.private_data_len : told.conn.private_data_len;
    if (length != 0) told.data.assign(data, length);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    if (told.event == RDMA_CM_EVENT_CONNECT_REQUEST) ids_.push_back(told.id);
    return told;
  }
  Told expect(rdma_cm_event_type wanted) {
    const Told told = next();
    EXPECT_EQ(told.event, wanted) << rdma_event_str(told.event) << ", status " << told.status;
    return told;
  }

  rdma_cm_id* listen(const Address& address, rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* const id = make_id(space, this);
    EXPECT_EQ(rdma_bind_addr(id, raw(address)), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_listen(id, 0), 0) << std::strerror(errno);
    return id;
  }
  // Where it can be reached.
  [[nodiscard]] static Address of_listener(rdma_cm_id* listener) {
    return *Address::read(rdma_get_local_addr(listener));
  }
  // An id that may connect, with a queue pair or without.
  rdma_cm_id* resolve(const Address& to, rdma_port_space space = RDMA_PS_TCP, bool with_qp = true) {
    rdma_cm_id* const id = make_id(space);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, raw(to), 2000), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (with_qp) add_qp(id);
    EXPECT_EQ(rdma_resolve_route(id, 2000), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }
  static void add_qp(rdma_cm_id* id) {
    ibv_qp_init_attr init = attributes(id->qp_type);
    EXPECT_EQ(rdma_create_qp(id, nullptr, &init), 0) << std::strerror(errno);
  }
  static ibv_qp_init_attr attributes(ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.qp_type = type;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.sq_sig_all = 1;
    return init;
  }
  // Which must live as long.
  static rdma_conn_param saying(std::string_view data) {
    rdma_conn_param params{};
    params.private_data = data.data();
    params.private_data_len = static_cast<uint8_t>(data.size());
    params.responder_resources = params.initiator_depth = 1;
    params.retry_count = params.rnr_retry_count = 7;
    return params;
  }
  struct Connected {
    rdma_cm_id* active;
    rdma_cm_id* passive;
  };
  // In both event orders that the two ends' independence allows.
  void expect_established() {
    expect(RDMA_CM_EVENT_ESTABLISHED);
    expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  Connected connect(rdma_cm_id* listener) {
    rdma_cm_id* const active = resolve(of_listener(listener));
    rdma_conn_param params = saying("");
    EXPECT_EQ(rdma_connect(active, &params), 0);
    rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    add_qp(passive);
    EXPECT_EQ(rdma_accept(passive, &params), 0) << std::strerror(errno);
    expect_established();
    return {active, passive};
  }
  [[nodiscard]] static ibv_qp_state state_of(const ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(const_cast<ibv_qp*>(qp), &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  // One message from one end to the other, through the inline helpers.
  static void send_a_word(rdma_cm_id* from, rdma_cm_id* to) {
    std::array<char, 16> here{"a word"};
    std::array<char, 16> there{};
    ibv_mr* const sent = rdma_reg_msgs(from, here.data(), here.size());
    ibv_mr* const got = rdma_reg_msgs(to, there.data(), there.size());
    ASSERT_NE(sent, nullptr);
    ASSERT_NE(got, nullptr);
    ASSERT_EQ(rdma_post_recv(to, nullptr, there.data(), there.size(), got), 0);
    ASSERT_EQ(rdma_post_send(from, nullptr, here.data(), here.size(), sent, 0), 0);
    ibv_wc wc{};
    ASSERT_EQ(rdma_get_recv_comp(to, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(rdma_get_send_comp(from, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_STREQ(there.data(), "a word");
    EXPECT_EQ(rdma_dereg_mr(sent), 0);
    EXPECT_EQ(rdma_dereg_mr(got), 0);
  }

  rdma_event_channel* channel_ = nullptr;
  std::vector<rdma_cm_id*> ids_;
};

}  // namespace verbena::rdmacm
