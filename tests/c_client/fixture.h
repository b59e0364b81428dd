// SPDX-License-Identifier: Apache-2.0
// For tests of <verbena/client.h>: a server in a process of its own, and clients of it.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "serve/process.h"
#include "verbena/client.h"

namespace verbena::c_client {

using Bytes = std::vector<uint8_t>;

inline Bytes random_bytes(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Bytes bytes(size);
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t next = random.next();
    std::memcpy(&bytes[at], &next, std::min(sizeof next, size - at));
  }
  return bytes;
}

class Server {
 public:
  // At any port, or the given one; without a folder, in memory.
  explicit Server(const std::string& folder = "-", uint16_t port = 0,
                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{VERBENA_SERVE_TARGET, "127.0.0.1:" + std::to_string(port),
                                     folder};
    command.insert(command.end(), more.begin(), more.end());
    process_ = serve::Process(command);
    const auto line = process_.line();
    EXPECT_TRUE(line && line->starts_with("ready ")) << line.value_or("nothing");
    if (line) port_ = static_cast<uint16_t>(std::atoi(line->c_str() + line->rfind(':') + 1));
  }
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] serve::Process& process() { return process_; }
  void kill() {
    process_.signal(SIGKILL);
    static_cast<void>(process_.wait());
  }

 private:
  serve::Process process_;
  uint16_t port_ = 0;
};

struct Disconnect {
  void operator()(verbena_client* client) const { verbena_disconnect(client); }
};
using ClientPtr = std::unique_ptr<verbena_client, Disconnect>;

inline verbena_options options_for(const Server& server) {
  verbena_options options = verbena_options_init();
  options.host = "127.0.0.1";
  options.port = server.port();
  options.libraries = VERBENA_LIBRARIES;
  options.timeout_ms = 60'000;
  return options;
}
inline ClientPtr connect(const verbena_options& options) {
  verbena_client* client = nullptr;
  EXPECT_EQ(verbena_connect(&options, &client), VERBENA_OK) << verbena_last_error();
  return ClientPtr(client);
}

// A server in memory and one client.
class Connected : public testing::Test {
 protected:
  void SetUp() override {
    client_ = connect(options_for(server_));
    ASSERT_NE(client_, nullptr);
  }
  [[nodiscard]] verbena_client* client() const { return client_.get(); }
  void create(const char* name) const {
    ASSERT_EQ(verbena_create(client(), name, nullptr), VERBENA_OK) << verbena_last_error();
  }
  [[nodiscard]] Bytes get(const char* name) const {
    void* data = nullptr;
    size_t bytes = 0;
    EXPECT_EQ(verbena_get(client(), verbena_name(name), &data, &bytes, nullptr), VERBENA_OK)
        << verbena_last_error();
    const auto* const begin = static_cast<const uint8_t*>(data);
    Bytes got(begin, begin + bytes);
    verbena_free(data);
    return got;
  }
  void put(const char* name, const Bytes& data) const {
    ASSERT_EQ(verbena_put(client(), verbena_name(name), data.data(), data.size(), nullptr, nullptr),
              VERBENA_OK)
        << verbena_last_error();
  }

  Server server_;
  ClientPtr client_;
};

}  // namespace verbena::c_client
