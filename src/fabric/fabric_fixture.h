// SPDX-License-Identifier: Apache-2.0
// For tests: fabrics of one process, which note what they are told: on the built-in device, or on a
// provider of libfabric.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "fabric/fabric_choice.h"

namespace verbena::fabric {

using Bytes = std::vector<uint8_t>;

inline Bytes numbered(size_t size, uint8_t from) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), from);
  return bytes;
}

// Where a test runs.
struct Place {
  const char* name;
  const char* host;
  const char* provider;  // of libfabric; empty: verbs
};
inline void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }
inline constexpr std::array<Place, 5> kPlaces{{{"VerbsV4", "127.0.0.1", ""},
                                               {"VerbsV6", "::1", ""},
                                               {"TcpV4", "127.0.0.1", "tcp"},
                                               {"TcpV6", "::1", "tcp"},
                                               {"Shm", "127.0.0.1", "shm"}}};
// Programs that have the device's libraries inside, as those with sanitizers, cannot use libfabric:
// it takes them for the system's.
inline bool device_is_inside() { return std::string_view(VERBENA_LIBRARIES) == "(program)"; }
// shm is for experiments only: see docs/fabric.md.
inline bool is_unsafe() { return std::getenv("VERBENA_UNSAFE_SHM") != nullptr; }
// Where to run what is for all of them.
inline std::vector<Place> places() {
  const ptrdiff_t count = device_is_inside() ? 2 : is_unsafe() ? 5 : 4;
  return {kPlaces.begin(), kPlaces.begin() + count};
}
inline constexpr auto kNameOfPlace = [](const auto& place) { return place.param.name; };

inline Result<std::unique_ptr<Fabric>> open_test_fabric(VerbsOptions options,
                                                        const std::string& provider) {
  options.libraries = VERBENA_LIBRARIES;
  return open_fabric(FabricChoice{provider}, options);
}

struct NoFabric {};

struct Side final : Handler {
  explicit Side(NoFabric /*yet*/) {}
  explicit Side(const VerbsOptions& options = {}, const std::string& provider = {}) {
    auto opened = open_test_fabric(options, provider);
    EXPECT_TRUE(opened) << opened.error();
    if (opened) fabric = std::move(*opened);
  }
  std::optional<std::vector<uint8_t>> on_request(ConnectionId,
                                                 std::span<const uint8_t> data) override {
    asked.assign(data.begin(), data.end());
    return answer;
  }
  void on_accepted(ConnectionId, std::span<const uint8_t> data) override {
    answered.assign(data.begin(), data.end());
  }
  void on_immediate(ConnectionId, uint32_t immediate) override { immediates.push_back(immediate); }
  void on_connected(ConnectionId connection) override { connected.push_back(connection); }
  void on_message(ConnectionId connection, std::span<const uint8_t> message) override {
    messages[connection].emplace_back(message.begin(), message.end());
  }
  void on_sendable(ConnectionId connection) override { sendable.push_back(connection); }
  void on_done(ConnectionId, OperationId operation, bool good) override {
    EXPECT_TRUE(done.emplace(operation, good).second) << "told twice";
  }
  void on_failed(ConnectionId connection, std::string_view why) override {
    failed[connection] = why;
  }
  void on_ended(ConnectionId connection) override {
    EXPECT_EQ(std::ranges::count(ended, connection), 0);
    ended.push_back(connection);
  }

  void send(ConnectionId connection, const Bytes& message) const {
    const auto room = fabric->message_room(connection);
    ASSERT_GE(room.size(), message.size());
    std::ranges::copy(message, room.begin());
    fabric->send(connection, message.size());
  }

  std::unique_ptr<Fabric> fabric;
  Bytes asked;                           // by the last peer that wanted to connect
  std::optional<Bytes> answer{Bytes()};  // to it
  Bytes answered;                        // by the peer that accepted
  std::vector<uint32_t> immediates;
  std::vector<ConnectionId> connected;
  std::vector<ConnectionId> sendable;
  std::map<ConnectionId, std::vector<Bytes>> messages;
  std::map<OperationId, bool> done;
  std::map<ConnectionId, std::string> failed;
  std::vector<ConnectionId> ended;
};

class FabricTest : public ::testing::Test {
 protected:
  // Until it is so; sleeps in between, so that a lost wake-up is seen.
  void until(const std::function<bool()>& so) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      size_t happened = 0;
      std::vector<pollfd> fds;
      for (Side* const side : sides_) happened += side->fabric->poll(*side);
      if (happened > 0) continue;
      for (Side* const side : sides_) {
        side->fabric->arm();
        happened += side->fabric->poll(*side);
        fds.push_back({side->fabric->fd(), POLLIN, 0});
      }
      if (happened == 0 && !so()) ::poll(fds.data(), fds.size(), 30'000);
    }
  }
  [[nodiscard]] const char* host() const { return place_.host; }
  void listen() { listen(host()); }
  void listen(const char* host) {
    const auto at = server_.fabric->listen({host, 0});
    ASSERT_TRUE(at) << at.error();
    ASSERT_NE(at->port, 0);
    port_ = at->port;
  }
  // One more; ours_ and theirs_ are the last one.
  void connect(Side& client) {
    if (port_ == 0) listen();
    ASSERT_NE(port_, 0);
    const size_t before = server_.connected.size();
    ours_ = client.fabric->connect({host(), port_});
    until([&] {
      return std::ranges::count(client.connected, ours_) > 0 && server_.connected.size() > before;
    });
    ASSERT_GT(server_.connected.size(), before);
    theirs_ = server_.connected.back();
  }
  void connect() { connect(client_); }

  explicit FabricTest(const Place& place, const VerbsOptions& server = {},
                      const VerbsOptions& client = {})
      : place_(place), server_(server, place.provider), client_(client, place.provider) {}

  const Place place_;
  Side server_;
  Side client_;
  std::vector<Side*> sides_{&server_, &client_};
  uint16_t port_ = 0;
  ConnectionId ours_ = 0;    // as the client has it
  ConnectionId theirs_ = 0;  // as the server does
};

}  // namespace verbena::fabric
