// SPDX-License-Identifier: Apache-2.0
// Event channels, and what waits for events.
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <pthread.h>

#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

using namespace std::chrono_literals;

class RdmacmChannel : public Pair {
 protected:
  void resolve_only(rdma_cm_id* id) {
    const Address to = at("127.0.0.1", 1);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(to), 1000), 0);
  }
  // A thread waits there, and a signal whose handler does not restart ends that.
  static void expect_wait_until_signal(rdma_event_channel* channel) {
    struct sigaction nothing{};
    nothing.sa_handler = [](int) {};
    struct sigaction before{};
    ASSERT_EQ(::sigaction(SIGUSR1, &nothing, &before), 0);
    std::atomic<bool> interrupted = false;
    std::thread waiter([&] {
      rdma_cm_event* event = nullptr;
      EXPECT_FAILS(rdma_get_cm_event(channel, &event), EINTR);
      interrupted = true;
    });
    // Until it has reached the wait.
    while (!interrupted) {
      ::pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
    waiter.join();
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  }
};

TEST_F(RdmacmChannel, IsReadableAsLongAsThereAreEvents) {
  rdma_cm_id* const one = make_id();
  rdma_cm_id* const two = make_id();
  EXPECT_FALSE(is_readable(channel_, 0));
  resolve_only(one);
  resolve_only(two);
  EXPECT_TRUE(is_readable(channel_, 0));
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_TRUE(is_readable(channel_, 0));
  destroy(two);  // and its event with it
  EXPECT_FALSE(is_readable(channel_, 0));
}

TEST_F(RdmacmChannel, DoesNotWaitWhenToldNotTo) {
  ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_FAILS(rdma_get_cm_event(channel_, &event), EAGAIN);
  resolve_only(make_id());
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_FAILS(rdma_get_cm_event(channel_, &event), EAGAIN);
}

TEST_F(RdmacmChannel, ASignalInterruptsTheWait) { expect_wait_until_signal(channel_); }

TEST_F(RdmacmChannel, ASignalWhoseHandlerRestartsDoesNotEndTheWait) {
  static std::atomic<int> handled;
  handled = 0;
  struct sigaction counting{};
  counting.sa_handler = [](int) { ++handled; };
  counting.sa_flags = SA_RESTART;
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &counting, &before), 0);
  rdma_cm_event* event = nullptr;
  std::thread waiter([&] { EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0); });
  // Some of them while it waits, also on a machine where it begins late.
  for (int sent = 0; sent < 20'000 && handled < 20; ++sent) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(handled, 20);
  resolve_only(make_id());
  waiter.join();
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
}

// Programs end with a thread that handles events, and destroy the channel under it: a thread that
// is on its way back to the channel waits there as if it had been there before.
TEST_F(RdmacmChannel, WhoComesToADestroyedOneWaitsUntilASignal) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_destroy_event_channel(channel);
  expect_wait_until_signal(channel);
}

TEST_F(RdmacmChannel, ADestroyedOneThatDidNotWaitRefuses) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_destroy_event_channel(channel);
  rdma_cm_event* event = nullptr;
  EXPECT_FAILS(rdma_get_cm_event(channel, &event), EBADF);
}

TEST_F(RdmacmChannel, AnotherThreadWaitsForIt) {
  rdma_cm_event* event = nullptr;
  std::thread waiter([&] { EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0); });
  resolve_only(make_id());
  waiter.join();
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
}

TEST_F(RdmacmChannel, AnIdIsDestroyedWhenItsEventsAreAcknowledged) {
  rdma_cm_id* const id = make_id();
  std::erase(ids_, id);
  resolve_only(id);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &event), 0);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(rdma_destroy_id(id), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(destroyed);
  EXPECT_EQ(event->id, id);  // still there
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  destroyer.join();
}

TEST_F(RdmacmChannel, EventsMoveWithTheId) {
  rdma_event_channel* const other = rdma_create_event_channel();
  ASSERT_NE(other, nullptr);
  rdma_cm_id* const id = make_id();
  rdma_cm_id* const stays = make_id();
  resolve_only(id);
  resolve_only(stays);
  ASSERT_EQ(rdma_migrate_id(id, other), 0);
  EXPECT_EQ(id->channel, other);
  EXPECT_EQ(next(other).id, id);
  EXPECT_EQ(expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, stays);
  EXPECT_FALSE(is_readable(channel_, 0));
  // Alone: each call waits.
  ASSERT_EQ(rdma_migrate_id(id, nullptr), 0);
  EXPECT_FAILS(rdma_migrate_id(id, nullptr), EINVAL);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_NE(id->event, nullptr);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  ASSERT_EQ(rdma_migrate_id(id, channel_), 0);
  EXPECT_EQ(id->event, nullptr);
  rdma_destroy_event_channel(other);
}

TEST_F(RdmacmChannel, AListenerHearsNoMoreWhenItsChannelIsDestroyed) {
  rdma_event_channel* const other = rdma_create_event_channel();
  ASSERT_NE(other, nullptr);
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  ASSERT_EQ(rdma_migrate_id(listener, other), 0);
  rdma_cm_id* const before = resolve(of_listener(listener));
  rdma_cm_id* const after = resolve(of_listener(listener));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(before, &params), 0);
  ASSERT_TRUE(is_readable(other, kPatienceMs));
  rdma_destroy_event_channel(other);
  EXPECT_EQ(expect(RDMA_CM_EVENT_REJECTED).id, before);
  ASSERT_EQ(rdma_connect(after, &params), 0);
  const Told told = expect(RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(told.id, after);
  EXPECT_EQ(told.status, 8);  // nobody listens
}

TEST_F(RdmacmChannel, RequestsMoveWithTheListener) {
  rdma_event_channel* const before = rdma_create_event_channel();
  rdma_cm_id* const listener = make_id();
  ASSERT_EQ(rdma_migrate_id(listener, before), 0);
  ASSERT_EQ(rdma_bind_addr(listener, raw(at("127.0.0.1"))), 0);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  rdma_cm_id* const active = resolve(of_listener(listener));
  rdma_conn_param params = saying("");
  ASSERT_EQ(rdma_connect(active, &params), 0);
  ASSERT_TRUE(is_readable(before, kPatienceMs));
  ASSERT_EQ(rdma_migrate_id(listener, channel_), 0);
  rdma_destroy_event_channel(before);
  rdma_cm_id* const passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
  EXPECT_EQ(passive->channel, channel_);
  add_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &params), 0);
  expect_established();
}

TEST_F(RdmacmChannel, GoesBeforeTheIdsThatAreOnIt) {
  rdma_event_channel* const early = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(early, &id, nullptr, RDMA_PS_TCP), 0);
  resolve_only(id);
  rdma_destroy_event_channel(early);
  EXPECT_EQ(rdma_resolve_route(id, 1), 0);  // tells nobody
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(RdmacmChannel, IdsComeAndGoWhileOthersAreToldOf) {
  // One thread connects and destroys, in every state of the exchange; this one gets the events.
  constexpr int kTimes = 60;
  rdma_cm_id* const listener = listen(at("127.0.0.1"));
  const Address to = of_listener(listener);
  std::atomic<bool> done = false;
  std::thread connector([&] {
    rdma_event_channel* const own = rdma_create_event_channel();
    for (int i = 0; i < kTimes; ++i) {
      rdma_cm_id* id = nullptr;
      ASSERT_EQ(rdma_create_id(own, &id, nullptr, RDMA_PS_TCP), 0);
      ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(to), 1), 0);
      ASSERT_EQ(rdma_resolve_route(id, 1), 0);
      add_qp(id);
      rdma_conn_param params = saying("");
      ASSERT_EQ(rdma_connect(id, &params), 0);
      if (i % 3 != 0) std::this_thread::sleep_for(std::chrono::microseconds(i * 20));
      rdma_destroy_qp(id);
      ASSERT_EQ(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(own);
    done = true;
  });
  while (!done || is_readable(channel_, 0)) {
    if (!is_readable(channel_, 1)) continue;
    const Told told = next();
    if (told.event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    add_qp(told.id);
    rdma_conn_param params = saying("");
    (void)rdma_accept(told.id, &params);  // its peer may be gone
  }
  connector.join();
}

}  // namespace
}  // namespace verbena::rdmacm
