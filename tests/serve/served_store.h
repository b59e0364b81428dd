// SPDX-License-Identifier: Apache-2.0
// For tests: a store and its server, in this process on a thread of its own.
#pragma once

#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"
#include "client/client.h"
#include "medium/malloc_backend.h"
#include "serve/settings.h"
#include "server/server.h"
#include "server/upkeep.h"
#include "store/directory.h"

namespace verbena::client {

inline std::unique_ptr<fabric::Fabric> test_fabric() {
  auto fabric = serve::open_chosen_fabric();
  EXPECT_TRUE(fabric) << fabric.error();
  return fabric ? std::move(*fabric) : nullptr;
}

inline std::vector<uint8_t> random_bytes(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

class ServedStore {
 public:
  // Without a folder, in memory.
  explicit ServedStore(server::Options options = {}, const std::string& folder = {},
                       store::Options store_options = {},
                       std::unique_ptr<fabric::Fabric> fabric = test_fabric(),
                       const server::CompactionPolicy& compaction = {},
                       store::Kind kind = store::Kind::kMapped) {
    // As `verbena serve` does: a client may leave while it is answered.
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    store_options.on_due = upkeep_.on_due();
    if (folder.empty()) {
      medium::MallocOptions memory{.block_bytes = size_t{1} << 20, .capacity = 512};
      memory.memory.registrar = &memory_;
      auto medium = medium::make_malloc_backend(memory);
      EXPECT_TRUE(medium);
      auto made = store::Store::create(std::move(*medium), store_options);
      EXPECT_TRUE(made) << made.error().what;
      in_memory_ = std::move(*made);
      store_ = in_memory_.get();
    } else {
      store::DirectoryOptions directory;
      directory.registrar = &memory_;
      directory.kind = kind;
      directory.capacity_bytes = uint64_t{512} << 20;
      directory.store = store_options;
      auto opened = store::DirectoryStore::open({folder}, directory);
      if (!opened) opened = store::DirectoryStore::create({folder}, directory);
      EXPECT_TRUE(opened) << opened.error().what;
      in_folder_.emplace(std::move(*opened));
      store_ = &in_folder_->store();
    }
    upkeep_.start(*store_, compaction,
                  {.failed = [](const store::Error& error) { ADD_FAILURE() << error.what; }});
    if (options.listen.host.empty()) options.listen.host = "127.0.0.1";
    server_ = std::make_unique<server::Server>(options, *store_, memory_, std::move(fabric));
    const auto at = server_->start();
    EXPECT_TRUE(at) << at.error();
    if (!at) return;
    at_ = *at;
    thread_ = std::thread([this] { server_->run(); });
  }
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;
  ~ServedStore() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
    upkeep_.stop();
    EXPECT_TRUE(store_->close());
  }

  [[nodiscard]] std::unique_ptr<Client> connect(
      Options options = {}, std::unique_ptr<fabric::Fabric> fabric = test_fabric()) const {
    options.host = at_.host;
    options.port = at_.port;
    auto client = Client::connect(options, std::move(fabric));
    EXPECT_TRUE(client) << client.error().what;
    return client ? std::move(*client) : nullptr;
  }
  [[nodiscard]] store::Store& store() { return *store_; }
  [[nodiscard]] server::Server& server() { return *server_; }
  [[nodiscard]] const server::Upkeep& upkeep() const { return upkeep_; }
  [[nodiscard]] const fabric::Endpoint& at() const { return at_; }
  // What belongs to the loop's thread.
  [[nodiscard]] uint64_t on_loop(const std::function<uint64_t()>& question) {
    std::promise<uint64_t> told;
    server_->run_on_loop([&] { told.set_value(question()); });
    return told.get_future().get();
  }
  [[nodiscard]] uint64_t counter(server::Counter counter) {
    return on_loop([&] { return server_->counter(counter); });
  }
  [[nodiscard]] size_t requests() {
    return on_loop([&] { return server_->requests(); });
  }

 private:
  server::ChunkMemory memory_;
  server::Upkeep upkeep_;
  std::unique_ptr<store::Store> in_memory_;
  std::optional<store::DirectoryStore> in_folder_;
  store::Store* store_ = nullptr;
  std::unique_ptr<server::Server> server_;
  fabric::Endpoint at_;
  std::thread thread_;
};

}  // namespace verbena::client
