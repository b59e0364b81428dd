// SPDX-License-Identifier: Apache-2.0
// A server that is killed in the middle of requests.
#include <filesystem>
#include <string>
#include <thread>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

TEST(CFailures, AKilledServer) {
  Server server;
  verbena_options options = options_for(server);
  options.timeout_ms = 1000;
  const ClientPtr client = connect(options);
  ASSERT_NE(client, nullptr);
  const verbena_object a = verbena_name("a");
  ASSERT_EQ(verbena_create(client.get(), "a", nullptr), VERBENA_OK);
  Bytes data = random_bytes(4U << 20, 1);
  verbena_queue* queue = nullptr;
  ASSERT_EQ(verbena_queue_create(64, &queue), VERBENA_OK);
  verbena_request request = verbena_request_init();
  request.object = a;
  request.queue = queue;
  request.buffer = data.data();
  request.bytes = data.size();
  int begun = 0;
  for (; begun < 32; ++begun) {
    request.operation = begun % 2 == 0 ? VERBENA_OP_WRITE : VERBENA_OP_PUT;
    ASSERT_EQ(verbena_submit(client.get(), &request), VERBENA_OK);
  }
  server.kill();
  for (int i = 0; i < begun; ++i) {
    verbena_completion completion = verbena_completion_init();
    ASSERT_EQ(verbena_queue_wait(queue, &completion, 60'000), VERBENA_OK);
    EXPECT_TRUE(completion.status == VERBENA_OK || completion.status == VERBENA_UNREACHABLE ||
                completion.status == VERBENA_UNKNOWN)
        << completion.status << ' ' << completion.error;
  }
  verbena_queue_destroy(queue);
  EXPECT_EQ(verbena_read(client.get(), a, 0, data.data(), 100, nullptr, nullptr),
            VERBENA_UNREACHABLE);
  EXPECT_STRNE(verbena_last_error(), "");
  EXPECT_EQ(verbena_ping_pong(client.get(), 1, 1, 0, nullptr), VERBENA_UNREACHABLE);
}

// A put that could not even begin has changed nothing, and says so.
TEST(CFailures, AServerThatIsStopped) {
  Server server;
  verbena_options options = options_for(server);
  options.timeout_ms = 300;
  const ClientPtr client = connect(options);
  ASSERT_NE(client, nullptr);
  const verbena_object a = verbena_name("a");
  ASSERT_EQ(verbena_put(client.get(), a, "before", 6, nullptr, nullptr), VERBENA_OK);
  server.process().signal(SIGSTOP);
  EXPECT_EQ(verbena_put(client.get(), a, "after", 5, nullptr, nullptr), VERBENA_UNREACHABLE)
      << verbena_last_error();
  server.process().signal(SIGCONT);
  const ClientPtr other = connect(options_for(server));
  ASSERT_NE(other, nullptr);
  char content[6];
  ASSERT_EQ(verbena_read(other.get(), a, 0, content, 6, nullptr, nullptr), VERBENA_OK);
  EXPECT_EQ(std::string(content, 6), "before");
}

// What changes nothing goes on when the server is back; a put is whole, or has not happened.
TEST(CFailures, AServerThatComesBack) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("c_client_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  Server server(folder);
  const uint16_t port = server.port();
  const ClientPtr client = connect(options_for(server));
  ASSERT_NE(client, nullptr);
  const verbena_object a = verbena_name("a");
  const Bytes first = random_bytes(300'000, 1);
  verbena_io_options durable = verbena_io_options_init();
  durable.flags = VERBENA_IO_DURABLE;
  ASSERT_EQ(verbena_put(client.get(), a, first.data(), first.size(), &durable, nullptr), VERBENA_OK)
      << verbena_last_error();
  server.kill();
  Bytes back(first.size());
  int read = -1;
  std::thread reading(
      [&] { read = verbena_read(client.get(), a, 0, back.data(), back.size(), nullptr, nullptr); });
  server = Server(folder, port);
  reading.join();
  EXPECT_EQ(read, VERBENA_OK);
  EXPECT_EQ(back, first);
  uint64_t reconnects = 0;
  EXPECT_EQ(verbena_get_reconnects(client.get(), &reconnects), VERBENA_OK);
  EXPECT_GE(reconnects, 1U);

  const Bytes second = random_bytes(18U << 20, 2);
  int put = -1;
  std::thread putting(
      [&] { put = verbena_put(client.get(), a, second.data(), second.size(), nullptr, nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  server.kill();
  server = Server(folder, port);
  putting.join();
  void* data = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(verbena_get(client.get(), a, &data, &bytes, nullptr), VERBENA_OK)
      << verbena_last_error();
  const auto* const begin = static_cast<const uint8_t*>(data);
  const Bytes now(begin, begin + bytes);
  verbena_free(data);
  EXPECT_TRUE(now == first || now == second) << bytes << " bytes; the put ended with " << put;
  // It begins again if the server has lost what it was writing to; only its last step can be in
  // doubt.
  EXPECT_TRUE(put == VERBENA_OK || put == VERBENA_UNKNOWN) << put;
  EXPECT_TRUE(put != VERBENA_OK || now == second);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbena::c_client
