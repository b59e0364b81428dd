// SPDX-License-Identifier: Apache-2.0
// Which fabric a client uses: the one that it asks for, or none.
#include <cstdlib>
#include <string>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

// The status of connecting over it, and why it failed.
struct Refusal {
  int status;
  std::string why;
};
Refusal connect_over(const Server& server, const char* fabric) {
  verbena_options options = options_for(server);
  options.fabric = fabric;
  verbena_client* client = reinterpret_cast<verbena_client*>(&options);
  const int status = verbena_connect(&options, &client);
  EXPECT_EQ(client, nullptr);
  return {status, verbena_last_error()};
}

// With sanitizers the device is inside the program, and libfabric cannot be used.
#ifndef VERBENA_SANITIZED
// A server process inherits it (tests/serve/settings.h).
class FabricOfServers {
 public:
  explicit FabricOfServers(const char* fabric) { ::setenv("VERBENA_TEST_FABRIC", fabric, 1); }
  ~FabricOfServers() { ::unsetenv("VERBENA_TEST_FABRIC"); }
  FabricOfServers(const FabricOfServers&) = delete;
  FabricOfServers& operator=(const FabricOfServers&) = delete;
};
Server server_over(const char* fabric) {
  const FabricOfServers fabric_of_servers(fabric);
  return Server{};
}

TEST(CFabric, ThereAndBackOverLibfabric) {
  const Server tcp = server_over("ofi:tcp");
  for (const char* const fabric : {"ofi:tcp", "ofi", "ofi:tcp;ofi_rxm"}) {
    verbena_options options = options_for(tcp);
    options.fabric = fabric;
    const ClientPtr client = connect(options);
    ASSERT_NE(client, nullptr) << fabric;
    EXPECT_TRUE(std::string(verbena_provider_name(client.get())).starts_with("libfabric, tcp"))
        << verbena_provider_name(client.get());
    // With the message, and by RDMA.
    for (const size_t size : {size_t{100}, size_t{1'000'000}}) {
      const Bytes data = random_bytes(size, size);
      verbena_transfer put = verbena_transfer_init();
      ASSERT_EQ(
          verbena_put(client.get(), verbena_name("a"), data.data(), data.size(), nullptr, &put),
          VERBENA_OK)
          << verbena_last_error();
      EXPECT_EQ(put.bytes, size);
      EXPECT_EQ(put.crc, verbena_crc32(data.data(), data.size()));
      void* got = nullptr;
      size_t bytes = 0;
      ASSERT_EQ(verbena_get(client.get(), verbena_name("a"), &got, &bytes, nullptr), VERBENA_OK)
          << verbena_last_error();
      EXPECT_TRUE(bytes == size && std::memcmp(got, data.data(), size) == 0) << size;
      verbena_free(got);
    }
  }
}

// Without a word about it, the client finds the one that the server has.
TEST(CFabric, TheBestThatBothHave) {
  const Server tcp = server_over("ofi:tcp");
  const ClientPtr client = connect(options_for(tcp));
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(std::string(verbena_provider_name(client.get())).starts_with("libfabric, tcp"))
      << verbena_provider_name(client.get());
}

// Asked for one, it does not try another.
TEST(CFabric, OneThatTheServerDoesNotHave) {
  const Server tcp = server_over("ofi:tcp");
  const Refusal verbs = connect_over(tcp, "verbs");
  EXPECT_EQ(verbs.status, VERBENA_REFUSED);
  EXPECT_NE(verbs.why.find("it has ofi:tcp;ofi_rxm"), std::string::npos) << verbs.why;
  const Server verbs_only;
  const Refusal refused = connect_over(verbs_only, "ofi:tcp");
  EXPECT_EQ(refused.status, VERBENA_REFUSED);
  EXPECT_NE(refused.why.find("it has verbs"), std::string::npos) << refused.why;
}

TEST(CFabric, AProviderThatIsNotThere) {
  const Server server;
  const Refusal none = connect_over(server, "ofi:no_such_provider");
  EXPECT_EQ(none.status, VERBENA_NO_DEVICE);
  EXPECT_NE(none.why.find("no_such_provider"), std::string::npos) << none.why;
}
#endif

TEST(CFabric, WrongNames) {
  const Server server;
  for (const char* const fabric : {"tcp", "Verbs", "ofi:", "ofi ", " "}) {
    const Refusal wrong = connect_over(server, fabric);
    EXPECT_EQ(wrong.status, VERBENA_INVALID) << fabric;
    EXPECT_EQ(wrong.why, "'" + std::string(fabric) + "' is not one of: verbs, ofi, ofi:PROVIDER");
  }
  verbena_options options = options_for(server);
  options.fabric = "verbs";
  const ClientPtr client = connect(options);
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(std::string(verbena_provider_name(client.get())).starts_with("verbs, "));
}

}  // namespace
}  // namespace verbena::c_client
