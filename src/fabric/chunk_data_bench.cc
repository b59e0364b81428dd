// SPDX-License-Identifier: Apache-2.0
// Up to 1 MiB between a peer in another process and the data of chunks: by lists of entries or by
// the device's keys, each with and without CRCs. Arguments: operations at once, chunks of each.
// Counters: CPU time of each process per operation.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/verbs_fabric.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kData = 4048;
constexpr uint32_t kChunk = 4096;
constexpr uint32_t kCrcAt = 4084;
constexpr uint32_t kMostParts = 259;

class Server final : public Handler {
 public:
  explicit Server(bool part_keys, uint32_t parts)
      : parts_(parts), chunks_(size_t{kMaxDepth} * parts * kChunk) {
    VerbsOptions options;
    options.libraries = VERBENA_LIBRARIES;
    if (!part_keys) options.part_keys = 0;
    fabric_ = must(open_verbs_fabric(options));
    static_cast<void>(must(fabric_->add_memory(chunks_.data(), chunks_.size(), false)));
    const Endpoint at = must(fabric_->listen({"127.0.0.1", 0}));
    std::string port = std::to_string(at.port);
    std::string program = VERBENA_FABRIC_PEER;
    std::string host = "127.0.0.1";
    char* const arguments[] = {program.data(), host.data(), port.data(), nullptr};
    if (posix_spawn(&peer_, program.c_str(), nullptr, nullptr, arguments, environ) != 0)
      std::abort();
    while (remote_.length == 0) wait();
    remote_.length = parts * kData;
  }
  ~Server() override {
    kill(peer_, SIGKILL);
    waitpid(peer_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // One more, when there are fewer than `depth`.
  void run(bool read, bool crcs, uint32_t depth) {
    while (started_ - done_ >= depth) wait();
    const uint64_t slot = started_ % depth;
    const std::vector<Local> ours{
        {chunks_.data() + slot * parts_ * kChunk, kData, kChunk, parts_, crcs ? kCrcAt : 0}};
    const std::vector<Remote> theirs{remote_};
    if (read) {
      fabric_->read(connection_, theirs, ours, ++started_);
    } else {
      fabric_->write(connection_, ours, theirs, ++started_);
    }
  }
  void drain() {
    while (done_ < started_) wait();
  }

  // Seconds of CPU time so far: ours, and the peer's.
  [[nodiscard]] static double own_cpu() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }
  [[nodiscard]] double peer_cpu() const {
    clockid_t clock{};
    return clock_getcpuclockid(peer_, &clock) == 0 ? seconds_of(clock) : 0;
  }

  void on_connected(ConnectionId connection) override { connection_ = connection; }
  void on_message(ConnectionId, std::span<const uint8_t> message) override {
    std::memcpy(&remote_, message.data(), sizeof remote_);
  }
  void on_sendable(ConnectionId) override {}
  void on_done(ConnectionId, OperationId, bool good) override {
    if (!good) std::abort();
    ++done_;
  }
  void on_failed(ConnectionId, std::string_view) override { std::abort(); }
  void on_ended(ConnectionId) override {}

  static constexpr uint32_t kMaxDepth = 8;

 private:
  template <typename T>
  static T must(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().c_str());
    std::abort();
  }

  static double seconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  // Sleeps, so that CPU time is that of work.
  void wait() {
    if (fabric_->poll(*this) > 0) return;
    fabric_->arm();
    if (fabric_->poll(*this) > 0) return;
    pollfd fd{fabric_->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
  }

  const uint32_t parts_;
  std::vector<uint8_t> chunks_;
  std::unique_ptr<Fabric> fabric_;
  pid_t peer_ = 0;
  Remote remote_;
  ConnectionId connection_ = 0;
  uint64_t started_ = 0;
  uint64_t done_ = 0;
};

void move_chunks(benchmark::State& state, bool read, bool part_keys, bool crcs) {
  const auto depth = static_cast<uint32_t>(state.range(0));
  const auto parts = static_cast<uint32_t>(state.range(1));
  Server server(part_keys, parts);
  // Chunks with CRCs, for those who check them.
  for (uint32_t i = 0; i < depth; ++i) server.run(true, true, depth);
  server.drain();
  const double own = Server::own_cpu();
  const double peer = server.peer_cpu();
  for (auto _ : state) server.run(read, crcs, depth);
  server.drain();
  const auto operations = static_cast<double>(state.iterations());
  state.counters["own_us"] = (Server::own_cpu() - own) * 1e6 / operations;
  state.counters["peer_us"] = (server.peer_cpu() - peer) * 1e6 / operations;
  state.SetBytesProcessed(state.iterations() * parts * kData);
}

void add(const char* name, bool read, bool part_keys, bool crcs) {
  benchmark::RegisterBenchmark(name, move_chunks, read, part_keys, crcs)
      ->ArgsProduct({{1, 8}, {1, 2, 4, 8, 16, 32, 64, 128, kMostParts}})
      ->UseRealTime();
}

const bool kAdded = [] {
  add("read/lists", true, false, false);
  add("read/keys", true, true, false);
  add("read/lists+crc", true, false, true);
  add("read/keys+crc", true, true, true);
  add("write/lists", false, false, false);
  add("write/keys", false, true, false);
  add("write/lists+crc", false, false, true);
  add("write/keys+crc", false, true, true);
  return true;
}();

}  // namespace
}  // namespace verbena::fabric
