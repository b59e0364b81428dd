// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "medium/malloc_backend.h"
#include "store/drafts.h"
#include "store/medium_error.h"

namespace verbena::server {
namespace {

constexpr size_t kBlockBytes = size_t{8} << 20;
constexpr uint32_t kLeastBlocks = 2;

// As somebody on this host says it.
std::string reachable(const fabric::Endpoint& at) {
  const std::string host = at.host.empty() ? "127.0.0.1" : at.host;
  return fmt::format(fmt::runtime(host.contains(':') ? "[{}]:{}" : "{}:{}"), host, at.port);
}

uint64_t wall_clock_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec * kSecond + time.tv_nsec);
}

}  // namespace

store::Result<void> Service::open_store(const ServiceOptions& options) {
  store::DirectoryOptions directory = options.directory;
  directory.registrar = &memory_;
  directory.store.on_due = upkeep_.on_due();
  directory.store.cache = options.tier.has_value();
  if (options.folders.empty()) {
    medium::MallocOptions memory{.block_bytes = kBlockBytes};
    memory.capacity = std::max<uint32_t>(
        kLeastBlocks,
        static_cast<uint32_t>(std::min<uint64_t>(options.memory_bytes / kBlockBytes, UINT32_MAX)));
    memory.memory.registrar = &memory_;
    auto medium = medium::make_malloc_backend(memory);
    if (!medium) return fail(store::from_medium(medium.error()));
    auto made = store::Store::create(std::move(*medium), directory.store);
    if (!made) return fail(made.error());
    in_memory_ = std::move(*made);
    store_ = in_memory_.get();
    created_ = true;
    return {};
  }
  auto opened = store::DirectoryStore::open(options.folders, directory);
  if (!opened && opened.error().code == store::Code::kNoStore) {
    opened = store::DirectoryStore::create(options.folders, directory);
    created_ = true;
  }
  if (!opened) return fail(opened.error());
  in_folders_.emplace(std::move(*opened));
  store_ = &in_folders_->store();
  // Nobody can be at work on one yet.
  const auto removed = store::remove_drafts(*store_);
  if (!removed) return fail(removed.error());
  return {};
}

void Service::make_cache(const ServiceOptions& options) {
  if (!options.tier) return;
  cache::Options cache = options.cache;
  cache.tell = tell_;
  cache_ = std::make_unique<cache::Cache>(*store_, *tier_, std::move(cache));
}

store::Result<void> Service::open_cache() {
  if (!cache_) return {};
  if (const auto opened = cache_->open(); !opened) return opened;
  cache_->start();
  return {};
}

store::Result<std::unique_ptr<Service>> Service::start(
    ServiceOptions options, const std::function<void(const std::string&)>& tell) {
  std::unique_ptr<Service> service(new Service);
  options.fabric.message_bytes =
      std::max<uint32_t>(options.fabric.message_bytes, options.server.sessions.limits.inline_bytes +
                                                           uint32_t{protocol::kMaxIoOverhead});
  // First what fails easily.
  auto fabric = fabric::open_fabrics(options.fabrics, options.fabric);
  if (!fabric) return fail(store::Error{store::Code::kIo, fabric.error(), {}});
  service->fabric_name_ = (*fabric)->name();
  service->tell_ = tell;
  if (options.tier) {
    auto tier = backend::open_tier(*options.tier);
    if (!tier) return fail(tier.error());
    service->tier_ = std::move(*tier);
  }
  if (const auto opened = service->open_store(options); !opened) return fail(opened.error());
  service->make_cache(options);
  service->upkeep_.start(
      *service->store_, options.compaction,
      {.hourly =
           [store = service->store_, cache = service->cache_.get()] {
             const uint64_t now = wall_clock_ns();
             constexpr uint64_t kDay = uint64_t{24} * 3600 * kSecond;
             store::RemoveDraft remove;
             // It may be behind, too.
             if (cache != nullptr) remove = [cache](ObjectId id) { return cache->remove(id); };
             static_cast<void>(store::remove_drafts(*store, now < kDay ? 0 : now - kDay, remove));
           },
       .failed =
           [tell](const store::Error& error) {
             tell("the store takes no more changes: " + error.what);
           },
       .told = tell});
  if (const auto opened = service->open_cache(); !opened) return fail(opened.error());
  options.server.cache = service->cache_.get();
  service->server_ = std::make_unique<Server>(std::move(options.server), *service->store_,
                                              service->memory_, std::move(*fabric));
  auto at = service->server_->start();
  if (!at) return fail(store::Error{store::Code::kIo, at.error(), {}});
  service->at_ = std::move(*at);
  if (service->in_folders_) {
    // Whoever finds the store in use is told; it serves all the same.
    static_cast<void>(service->in_folders_->announce(reachable(service->at_)));
  }
  return service;
}

store::Result<void> Service::close() {
  closed_ = true;
  server_.reset();
  auto flushed = flush_behind();
  upkeep_.stop();
  cache_.reset();
  const auto done = store_->close();
  return done ? flushed : done;
}

// What a store in memory has is lost unless it is behind; that of files is only not there yet.
store::Result<void> Service::flush_behind() {
  if (!cache_) return {};
  cache_->stop();
  auto flushed = cache_->flush_all();
  const bool keeps = store_->medium_properties().persistent;
  if (!flushed && keeps) {
    tell_("not flushed: " + flushed.error().what + "; what is only in the store is kept there");
    flushed = {};
  }
  return flushed;
}

Service::~Service() {
  if (!closed_ && store_ != nullptr) static_cast<void>(close());
}

}  // namespace verbena::server
