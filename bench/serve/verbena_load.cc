// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/connect.h"
#include "common/ends.h"
#include "load.h"

namespace verbena::bench {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "verbena: %s\n", why.c_str());
  std::exit(1);
}

class LoadClient {
 public:
  LoadClient(const Load& load, const client::RemoteOptions& server)
      : load_(load), memory_(size_t{load.bytes} * std::max(load.depth, 1U), 0x5a) {
    auto client = client::connect(server);
    if (!client) give_up(client.error().what);
    client_ = std::move(*client);
    const auto object = client_->create("");
    if (!object) give_up(object.error().what);
    object_ = client::ObjectRef::by(*object);
    for (uint32_t i = 0; i < kPlaces; ++i) {
      const auto done = client_->write(object_, place(i), piece(0));
      check(done);
      if (!load.checked) write_options_.crc = done->crc;
    }
    read_options_.caller_checks = !load.checked;
  }
  ~LoadClient() { static_cast<void>(client_->remove(object_)); }

  // How many, until `stop`.
  uint64_t run(const std::atomic<bool>& stop) {
    return load_.depth == 1 ? one_at_a_time(stop) : several(stop);
  }

 private:
  static void check(const client::Result<client::Transferred>& done) {
    if (!done) give_up(done.error().what);
  }
  [[nodiscard]] uint64_t place(uint64_t i) const { return i % kPlaces * load_.bytes; }
  [[nodiscard]] std::span<uint8_t> piece(uint32_t slot) {
    return std::span(memory_).subspan(size_t{slot} * load_.bytes, load_.bytes);
  }

  uint64_t one_at_a_time(const std::atomic<bool>& stop) {
    uint64_t count = 0;
    for (; !stop.load(std::memory_order_relaxed); ++count) {
      check(load_.write ? client_->write(object_, place(count), piece(0), write_options_)
                        : client_->read(object_, place(count), piece(0), read_options_));
    }
    return count;
  }

  uint64_t several(const std::atomic<bool>& stop) {
    std::atomic<uint64_t> count{0};
    std::atomic<uint32_t> open{load_.depth};
    const std::function<void(uint32_t)> next = [&](uint32_t slot) {
      if (stop.load(std::memory_order_relaxed)) {
        --open;
        return;
      }
      const auto done = [&, slot](const client::Result<client::Transferred>& result) {
        check(result);
        ++count;
        next(slot);
      };
      const auto to = piece(slot);
      const std::span<const uint8_t> from = to;
      const uint64_t at = place(count + slot);
      if (load_.write) {
        client_->write_async(object_, at, client::Client::ConstMemory(&from, 1),
                             write_options_, done);
      } else {
        client_->read_async(object_, at, client::Client::Memory(&to, 1), read_options_, done);
      }
    };
    for (uint32_t slot = 0; slot < load_.depth; ++slot) next(slot);
    while (open > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return count;
  }

  Load load_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<client::Client> client_;
  client::ObjectRef object_;
  client::WriteOptions write_options_;
  client::ReadOptions read_options_;
};

}  // namespace

double through_verbena(const Load& load, uint16_t port, const std::string& libraries,
                       const std::string& fabric) {
  client::RemoteOptions server;
  server.host = "127.0.0.1";
  server.port = port;
  server.libraries = libraries;
  server.fabric = fabric;
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (uint32_t i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<LoadClient>(load, server));
  }
  return run_all(load, clients);
}

}  // namespace verbena::bench
