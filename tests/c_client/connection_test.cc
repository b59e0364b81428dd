// SPDX-License-Identifier: Apache-2.0
// Connecting, and what there is to know of a connection.
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

class CConnection : public Connected {};

TEST_F(CConnection, SaysWhatItIs) {
  EXPECT_EQ(verbena_client_version(), VERBENA_CLIENT_VERSION);
  EXPECT_TRUE(std::string(verbena_provider_name(client())).starts_with("verbs, "));
  verbena_limits limits = verbena_limits_init();
  ASSERT_EQ(verbena_get_limits(client(), &limits), VERBENA_OK);
  EXPECT_EQ(limits.io_bytes, 16U << 20);
  EXPECT_EQ(limits.inline_bytes, 32'768U);
  EXPECT_EQ(limits.window, 128U);
  uint64_t reconnects = 9;
  ASSERT_EQ(verbena_get_reconnects(client(), &reconnects), VERBENA_OK);
  EXPECT_EQ(reconnects, 0U);
}

TEST_F(CConnection, PingsAreMeasured) {
  for (const int passive : {0, 1}) {
    ASSERT_EQ(verbena_set_passive_wait(client(), passive), VERBENA_OK);
    verbena_ping ping = verbena_ping_init();
    ASSERT_EQ(verbena_ping_pong(client(), 20, 1000, 100'000, &ping), VERBENA_OK)
        << verbena_last_error();
    EXPECT_GT(ping.eager_min_ns, 0U);
    EXPECT_LE(ping.eager_min_ns, ping.eager_mean_ns);
    EXPECT_LE(ping.eager_mean_ns, ping.eager_max_ns);
    EXPECT_GT(ping.rdma_min_ns, 0U);
    EXPECT_LE(ping.rdma_mean_ns, ping.rdma_max_ns);
  }
  // What was written for it is gone.
  verbena_list* list = nullptr;
  ASSERT_EQ(verbena_list_objects(client(), nullptr, &list), VERBENA_OK);
  EXPECT_EQ(verbena_list_count(list), 0U);
  verbena_list_free(list);
  EXPECT_EQ(verbena_ping_pong(client(), 1, 32'769, 0, nullptr), VERBENA_TOO_LARGE);
  EXPECT_EQ(verbena_ping_pong(client(), 0, 1, 0, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_ping_pong(client(), 3, 32'768, 0, nullptr), VERBENA_OK) << verbena_last_error();
}

// A child of fork() can neither use the client nor end its parent's session.
TEST_F(CConnection, BelongsToOneProcess) {
  create("a");
  uint64_t range = 0;
  ASSERT_EQ(verbena_register_range(client(), verbena_name("a"), 0, 0, VERBENA_ACCESS_WRITE, &range),
            VERBENA_OK);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    verbena_limits limits = verbena_limits_init();
    uint64_t number = 0;
    verbena_request request = verbena_request_init();
    int right = 0;
    for (const int status :
         {verbena_put(client(), verbena_name("a"), "1", 1, nullptr, nullptr),
          verbena_flush_all(client()), verbena_get_limits(client(), &limits),
          verbena_get_reconnects(client(), &number), verbena_set_passive_wait(client(), 1),
          verbena_submit(client(), &request)}) {
      right += status == VERBENA_INVALID ? 1 : 0;
    }
    verbena_disconnect(client());
    _exit(right);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 6);
  EXPECT_EQ(verbena_unregister_range(client(), range), VERBENA_OK) << verbena_last_error();
  uint64_t reconnects = 9;
  ASSERT_EQ(verbena_get_reconnects(client(), &reconnects), VERBENA_OK);
  EXPECT_EQ(reconnects, 0U);
}

TEST(CConnect, NeedsTheSecret) {
  const Server server("-", 0, {"sesame"});
  verbena_options options = options_for(server);
  verbena_client* client = reinterpret_cast<verbena_client*>(&options);
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_REFUSED);
  EXPECT_EQ(client, nullptr);
  EXPECT_NE(std::string(verbena_last_error()).find("secret"), std::string::npos)
      << verbena_last_error();
  options.secret = "sesame and more";
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_REFUSED);
  options.secret_bytes = 6;
  EXPECT_NE(connect(options), nullptr);
  options.secret = "sesame";
  options.secret_bytes = 0;
  EXPECT_NE(connect(options), nullptr);
}

TEST(CConnect, NobodyThere) {
  uint16_t port = 0;
  {
    const Server server;
    port = server.port();
  }
  verbena_options options = verbena_options_init();
  options.port = port;
  options.libraries = VERBENA_LIBRARIES;
  options.timeout_ms = 200;
  verbena_client* client = nullptr;
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_UNREACHABLE);
  EXPECT_NE(std::string(verbena_last_error()).find(std::to_string(port)), std::string::npos);
}

TEST(CConnect, WrongArguments) {
  verbena_options options = verbena_options_init();
  EXPECT_EQ(verbena_connect(&options, nullptr), VERBENA_INVALID);
  verbena_client* client = nullptr;
  options.size = 0;
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_INVALID);
  options.size = size_t{1} << 40;
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_INVALID);
  verbena_disconnect(nullptr);
  verbena_fini(nullptr);
  EXPECT_EQ(verbena_provider_name(nullptr), nullptr);
}

// A program that was built with a later header, and one with an earlier.
TEST(CConnect, StructuresOfOtherVersions) {
  const Server server;
  struct {
    verbena_options options;
    uint64_t later;
  } newer{options_for(server), 0};
  newer.options.size = sizeof newer;
  EXPECT_NE(connect(newer.options), nullptr);
  newer.later = 1;
  verbena_client* client = nullptr;
  EXPECT_EQ(verbena_connect(&newer.options, &client), VERBENA_UNSUPPORTED);

  const ClientPtr connected = connect(options_for(server));
  ASSERT_NE(connected, nullptr);
  verbena_limits older = verbena_limits_init();
  older.size = offsetof(verbena_limits, inline_bytes);
  older.window = 77;
  ASSERT_EQ(verbena_get_limits(connected.get(), &older), VERBENA_OK);
  EXPECT_EQ(older.io_bytes, 16U << 20);
  EXPECT_EQ(older.window, 77U) << "written beyond the structure";
}

TEST(CConnect, StatusNames) {
  EXPECT_STREQ(verbena_status_name(VERBENA_OK), "ok");
  EXPECT_STREQ(verbena_status_name(VERBENA_NOT_FOUND), "not-found");
  EXPECT_STREQ(verbena_status_name(VERBENA_AGAIN), "again");
  for (const int none : {-1, 14, 17, 31, 38, 1 << 30}) {
    EXPECT_STREQ(verbena_status_name(none), "unknown-status") << none;
  }
}

#ifndef VERBENA_SANITIZED
// Without a word about it, the libraries are those beside the client's.
TEST(CConnect, FindsTheDevice) {
  const Server server;
  verbena_client* client = nullptr;
  ASSERT_EQ(verbena_init("127.0.0.1", server.port(), &client), VERBENA_OK) << verbena_last_error();
  verbena_fini(client);
}
#endif

}  // namespace
}  // namespace verbena::c_client
