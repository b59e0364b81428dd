// SPDX-License-Identifier: Apache-2.0
// verbena_submit(): callbacks, queues, and every operation.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include <poll.h>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

struct DestroyQueue {
  void operator()(verbena_queue* queue) const { verbena_queue_destroy(queue); }
};
using QueuePtr = std::unique_ptr<verbena_queue, DestroyQueue>;

QueuePtr make_queue(uint32_t capacity) {
  verbena_queue* queue = nullptr;
  EXPECT_EQ(verbena_queue_create(capacity, &queue), VERBENA_OK) << verbena_last_error();
  return QueuePtr(queue);
}

class CAsynchronous : public Connected {
 protected:
  void SetUp() override {
    Connected::SetUp();
    queue_ = make_queue(64);
  }
  [[nodiscard]] verbena_request request(verbena_operation operation, const char* name) const {
    verbena_request made = verbena_request_init();
    made.operation = operation;
    made.object = verbena_name(name);
    made.queue = queue_.get();
    return made;
  }
  // Submits it, and waits for its completion.
  [[nodiscard]] verbena_completion done(const verbena_request& request) const {
    verbena_completion completion = verbena_completion_init();
    EXPECT_EQ(verbena_submit(client(), &request), VERBENA_OK) << verbena_last_error();
    EXPECT_EQ(verbena_queue_wait(queue_.get(), &completion, 60'000), VERBENA_OK);
    EXPECT_EQ(completion.operation, request.operation);
    EXPECT_EQ(completion.context, request.context);
    EXPECT_EQ(completion.status == VERBENA_OK, completion.error[0] == '\0') << completion.error;
    return completion;
  }

  QueuePtr queue_;
};

TEST_F(CAsynchronous, EveryOperation) {
  Bytes data = random_bytes(200'000, 1);
  verbena_request r = request(VERBENA_OP_PING, nullptr);
  r.buffer = data.data();
  r.bytes = 1000;
  r.context = &data;
  EXPECT_EQ(done(r).status, VERBENA_OK);

  r = request(VERBENA_OP_CREATE, nullptr);
  r.name = "a";
  r.object.id = {3, 4};
  EXPECT_EQ(done(r).object.low, 4U);
  EXPECT_EQ(done(r).status, VERBENA_EXISTS);

  r = request(VERBENA_OP_WRITE, "a");
  r.buffer = data.data();
  r.bytes = data.size();
  r.offset = 10;
  r.flags = VERBENA_IO_CRC;
  r.crc = verbena_crc32(data.data(), data.size());
  verbena_completion c = done(r);
  EXPECT_EQ(c.bytes, data.size());
  EXPECT_EQ(c.crc, r.crc);
  EXPECT_EQ(c.object.high, 3U);

  Bytes back(data.size());
  r = request(VERBENA_OP_READ, "a");
  r.buffer = back.data();
  r.bytes = back.size();
  r.offset = 10;
  EXPECT_EQ(done(r).bytes, data.size());
  EXPECT_EQ(back, data);

  r = request(VERBENA_OP_STORED_CRC, "a");
  r.offset = 10;
  c = done(r);
  EXPECT_EQ(c.crc, verbena_crc32(data.data(), data.size()));
  EXPECT_EQ(c.bytes, data.size());

  r = request(VERBENA_OP_PUT, "b");
  r.buffer = data.data();
  r.bytes = data.size();
  EXPECT_EQ(done(r).bytes, data.size());
  c = done(request(VERBENA_OP_GET, "b"));
  ASSERT_EQ(c.bytes, data.size());
  EXPECT_EQ(std::memcmp(c.data, data.data(), data.size()), 0);
  verbena_free(c.data);

  r = request(VERBENA_OP_CLONE, "b");
  r.other = verbena_by_id({8, 8});
  r.name = "c";
  r.offset = 4048;
  r.length = 8096;
  r.other_offset = 4048;
  EXPECT_EQ(done(r).object.high, 8U);
  EXPECT_EQ(get("c").size(), 4048U + 8096U);
  EXPECT_EQ(done(r).status, VERBENA_EXISTS);
  r.allow_exist = 1;
  EXPECT_EQ(done(r).status, VERBENA_OK);

  r = request(VERBENA_OP_TRUNCATE, "c");
  r.length = 77;
  EXPECT_EQ(done(r).status, VERBENA_OK);
  c = done(request(VERBENA_OP_STAT, "c"));
  ASSERT_EQ(verbena_list_count(c.list), 1U);
  verbena_info info = verbena_info_init();
  ASSERT_EQ(verbena_list_entry(c.list, 0, &info), VERBENA_OK);
  EXPECT_EQ(info.bytes, 77U);
  EXPECT_STREQ(info.name, "c");
  verbena_list_free(c.list);

  r = request(VERBENA_OP_RENAME, "c");
  r.name = "bb";
  EXPECT_EQ(done(r).status, VERBENA_OK);
  r = request(VERBENA_OP_LIST, nullptr);
  r.name = "b";
  c = done(r);
  EXPECT_EQ(verbena_list_count(c.list), 2U);
  verbena_list_free(c.list);

  r = request(VERBENA_OP_REGISTER_RANGE, "b");
  r.length = 100;
  r.access = VERBENA_ACCESS_WRITE;
  c = done(r);
  EXPECT_EQ(c.status, VERBENA_OK);
  r = request(VERBENA_OP_UNREGISTER_RANGE, nullptr);
  r.range = c.range;
  EXPECT_EQ(done(r).status, VERBENA_OK);

  r = request(VERBENA_OP_REPLACE, "bb");
  r.other = verbena_name("b");
  EXPECT_EQ(done(r).status, VERBENA_OK);
  EXPECT_EQ(get("bb"), data);
  EXPECT_EQ(done(request(VERBENA_OP_FLUSH, "bb")).status, VERBENA_OK);
  EXPECT_EQ(done(request(VERBENA_OP_FLUSH, nullptr)).status, VERBENA_OK);
  EXPECT_EQ(done(request(VERBENA_OP_REMOVE, "bb")).status, VERBENA_OK);
  EXPECT_EQ(done(request(VERBENA_OP_REMOVE, "bb")).status, VERBENA_NOT_FOUND);
}

// The queue's bound is of what is under way and what was not taken.
TEST_F(CAsynchronous, AQueueIsBounded) {
  const QueuePtr small = make_queue(3);
  verbena_request r = request(VERBENA_OP_PING, nullptr);
  r.queue = small.get();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(verbena_submit(client(), &r), VERBENA_OK);
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_TOO_LARGE);
  pollfd readable{verbena_queue_fd(small.get()), POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 60'000), 1);
  verbena_completion completion = verbena_completion_init();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(verbena_queue_wait(small.get(), &completion, -1), VERBENA_OK);
    EXPECT_EQ(completion.status, VERBENA_OK) << completion.error;
  }
  EXPECT_EQ(poll(&readable, 1, 0), 0) << "nothing is left";
  EXPECT_EQ(verbena_queue_poll(small.get(), &completion), VERBENA_AGAIN);
  EXPECT_EQ(verbena_queue_wait(small.get(), &completion, 1), VERBENA_AGAIN);
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_OK);
  // One that is refused takes no place.
  r.operation = VERBENA_OP_WRITE;
  r.object = verbena_name("a");
  r.bytes = 1;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID);
  r.operation = VERBENA_OP_PING;
  r.bytes = 0;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_OK);
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_OK);
}

// Requests of a queue that is gone are dropped, with what they bring.
TEST_F(CAsynchronous, AQueueMayGoFirst) {
  const Bytes data = random_bytes(100'000, 1);
  put("a", data);
  for (int i = 0; i < 20; ++i) {
    QueuePtr queue = make_queue(8);
    verbena_request r = request(VERBENA_OP_GET, "a");
    r.queue = queue.get();
    for (int k = 0; k < 8; ++k) ASSERT_EQ(verbena_submit(client(), &r), VERBENA_OK);
  }
  EXPECT_EQ(get("a"), data);
}

struct Chain {
  verbena_client* client = nullptr;
  verbena_request next = verbena_request_init();
  std::atomic<int> left{100};
  std::atomic<int> failures{0};
  std::atomic<int> waited{-1};
  verbena_queue* queue = nullptr;
  std::atomic<int> queue_waited{-1};
  std::atomic<int> connected{-1};
};

// Each callback makes the next request, and may not wait.
void go_on(const verbena_completion* completion) {
  auto& chain = *static_cast<Chain*>(completion->context);
  if (completion->status != VERBENA_OK) ++chain.failures;
  if (chain.left == 50) chain.waited = verbena_flush_all(chain.client);
  if (chain.left == 49) {
    verbena_completion none = verbena_completion_init();
    chain.queue_waited = verbena_queue_wait(chain.queue, &none, -1);
  }
  if (chain.left == 48) {
    verbena_client* none = nullptr;
    chain.connected = verbena_init(nullptr, 0, &none);
    verbena_disconnect(chain.client);
  }
  if (chain.left > 1 && verbena_submit(chain.client, &chain.next) != VERBENA_OK) ++chain.failures;
  if (--chain.left == 0) chain.left.notify_all();
}

TEST_F(CAsynchronous, CallbacksMakeRequests) {
  put("a", random_bytes(100'000, 1));
  Bytes room(100'000);
  Chain chain;
  chain.client = client();
  chain.queue = queue_.get();
  chain.next = request(VERBENA_OP_READ, "a");
  chain.next.queue = nullptr;
  chain.next.callback = go_on;
  chain.next.context = &chain;
  chain.next.buffer = room.data();
  chain.next.bytes = room.size();
  ASSERT_EQ(verbena_submit(client(), &chain.next), VERBENA_OK) << verbena_last_error();
  for (int left = chain.left; left != 0; left = chain.left) chain.left.wait(left);
  EXPECT_EQ(chain.failures, 0);
  EXPECT_EQ(chain.waited, VERBENA_INVALID);
  EXPECT_EQ(chain.queue_waited, VERBENA_INVALID);
  EXPECT_EQ(chain.connected, VERBENA_INVALID);
}

TEST_F(CAsynchronous, ManyThreadsOneQueue) {
  create("a");
  constexpr int kEach = 200;
  const QueuePtr queue = make_queue(4 * kEach);
  Bytes data = random_bytes(4048, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      verbena_request r = request(VERBENA_OP_WRITE, "a");
      r.queue = queue.get();
      r.buffer = data.data();
      r.bytes = data.size();
      for (int i = 0; i < kEach; ++i) {
        r.offset = (static_cast<uint64_t>(t) * kEach + static_cast<uint64_t>(i)) * 4048;
        EXPECT_EQ(verbena_submit(client(), &r), VERBENA_OK) << verbena_last_error();
      }
    });
  }
  std::atomic<int> taken{0};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      verbena_completion completion = verbena_completion_init();
      while (taken < 4 * kEach) {
        if (verbena_queue_wait(queue.get(), &completion, 10) != VERBENA_OK) continue;
        EXPECT_EQ(completion.status, VERBENA_OK) << completion.error;
        ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get("a").size(), 4U * kEach * 4048);
}

TEST_F(CAsynchronous, DisconnectingCancels) {
  create("a");
  Bytes data = random_bytes(8U << 20, 1);
  verbena_request r = request(VERBENA_OP_PUT, "a");
  r.buffer = data.data();
  r.bytes = data.size();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(verbena_submit(client(), &r), VERBENA_OK);
  client_.reset();
  verbena_completion completion = verbena_completion_init();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(verbena_queue_poll(queue_.get(), &completion), VERBENA_OK) << i;
    EXPECT_TRUE(completion.status == VERBENA_OK || completion.status == VERBENA_CANCELLED ||
                completion.status == VERBENA_UNKNOWN)
        << completion.status << ' ' << completion.error;
  }
}

struct Stubborn {
  verbena_client* client = nullptr;
  verbena_request next = verbena_request_init();
  std::atomic<int> refused{-1};
};

// Makes another request whatever became of the last.
void never_stop(const verbena_completion* completion) {
  auto& stubborn = *static_cast<Stubborn*>(completion->context);
  const int status = verbena_submit(stubborn.client, &stubborn.next);
  if (status != VERBENA_OK) stubborn.refused = status;
}

TEST_F(CAsynchronous, DisconnectingEndsWhatNeverStops) {
  Stubborn stubborn;
  stubborn.client = client();
  stubborn.next = request(VERBENA_OP_PING, nullptr);
  stubborn.next.queue = nullptr;
  stubborn.next.callback = never_stop;
  stubborn.next.context = &stubborn;
  ASSERT_EQ(verbena_submit(client(), &stubborn.next), VERBENA_OK);
  client_.reset();
  EXPECT_EQ(stubborn.refused, VERBENA_CANCELLED);
}

TEST_F(CAsynchronous, WrongArguments) {
  verbena_request r = request(VERBENA_OP_READ, "a");
  EXPECT_EQ(verbena_submit(client(), nullptr), VERBENA_INVALID);
  r.callback = go_on;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID) << "both";
  r.callback = nullptr;
  r.queue = nullptr;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID) << "neither";
  for (const int operation : {-1, 0, 18, 1000}) {
    r = request(static_cast<verbena_operation>(operation), "a");
    EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID);
  }
  for (const verbena_operation operation : {VERBENA_OP_REMOVE, VERBENA_OP_STAT, VERBENA_OP_READ}) {
    r = request(operation, nullptr);
    EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID);
  }
  r = request(VERBENA_OP_REPLACE, "a");
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID) << "by nothing";
  r = request(VERBENA_OP_REGISTER_RANGE, "a");
  r.access = 2;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID);
  r = request(VERBENA_OP_PING, nullptr);
  r.bytes = 40'000;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_TOO_LARGE);
  r = request(VERBENA_OP_READ, "a");
  r.size = 3;
  EXPECT_EQ(verbena_submit(client(), &r), VERBENA_INVALID);
  verbena_completion completion = verbena_completion_init();
  EXPECT_EQ(verbena_queue_poll(nullptr, &completion), VERBENA_INVALID);
  EXPECT_EQ(verbena_queue_poll(queue_.get(), nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_queue_poll(queue_.get(), &completion), VERBENA_AGAIN) << "none was begun";
  EXPECT_EQ(verbena_queue_create(5, nullptr), VERBENA_INVALID);
  verbena_queue* queue = nullptr;
  EXPECT_EQ(verbena_queue_create(0, &queue), VERBENA_INVALID);
  EXPECT_EQ(verbena_queue_fd(nullptr), -1);
  verbena_queue_destroy(nullptr);
}

}  // namespace
}  // namespace verbena::c_client
