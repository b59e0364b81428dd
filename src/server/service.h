// SPDX-License-Identifier: Apache-2.0
// A store with its server: opened, served, and closed in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/tier_choice.h"
#include "cache/cache.h"
#include "fabric/fabric_choice.h"
#include "server/chunk_memory.h"
#include "server/server.h"
#include "server/upkeep.h"
#include "store/directory.h"

namespace verbena::server {

struct ServiceOptions {
  std::vector<std::string> folders{};  // none: the store is in memory, and ends with the server
  uint64_t memory_bytes = 0;           // of a store in memory
  store::DirectoryOptions directory{};
  std::vector<fabric::FabricChoice> fabrics{};  // by which clients come; none: verbs
  fabric::VerbsOptions fabric{};
  Options server{};
  CompactionPolicy compaction{};
  std::optional<backend::TierChoice> tier{};  // what it is a cache for
  cache::Options cache{};
};

class Service {
 public:
  // Makes the store if there is none. `tell`: told, by any thread, what an administrator should
  // know of while it runs.
  [[nodiscard]] static store::Result<std::unique_ptr<Service>> start(
      ServiceOptions options, const std::function<void(const std::string&)>& tell);
  ~Service();

  [[nodiscard]] const fabric::Endpoint& at() const { return at_; }
  [[nodiscard]] const std::string& fabric_name() const { return fabric_name_; }
  [[nodiscard]] store::Store& store() { return *store_; }
  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] const Upkeep& upkeep() const { return upkeep_; }
  // None: nothing is behind the store.
  [[nodiscard]] const cache::Cache* cache() const { return cache_.get(); }
  [[nodiscard]] bool created() const { return created_; }

  // Until stop().
  void run() { server_->run(); }
  // By any thread or a signal's handler.
  void stop() { server_->stop(); }
  // Ends the sessions if there are any, and makes all durable.
  [[nodiscard]] store::Result<void> close();

 private:
  Service() = default;
  [[nodiscard]] store::Result<void> open_store(const ServiceOptions& options);
  [[nodiscard]] store::Result<void> flush_behind();
  void make_cache(const ServiceOptions& options);
  [[nodiscard]] store::Result<void> open_cache();

  ChunkMemory memory_;
  Upkeep upkeep_;
  std::unique_ptr<store::Store> in_memory_;
  std::optional<store::DirectoryStore> in_folders_;
  store::Store* store_ = nullptr;
  std::unique_ptr<backend::Tier> tier_;
  std::unique_ptr<cache::Cache> cache_;
  std::function<void(const std::string&)> tell_;
  bool created_ = false;
  bool closed_ = false;
  std::string fabric_name_;
  fabric::Endpoint at_;
  std::unique_ptr<Server> server_;
};

}  // namespace verbena::server
