// SPDX-License-Identifier: Apache-2.0
// What sender and receiver have in common: one thread that owns the fabric and the machines,
// workers for the files, messages that wait for room, and sleep.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/time.h"
#include "base/unique_fd.h"
#include "base/workers.h"
#include "fabric/fabric.h"

namespace verbena::transfer {

// For last words to arrive, before the connection is ended.
inline constexpr Duration kFarewell = 2 * kSecond;

// Memory that the fabric uses, in whole pages.
class FabricMemory {
 public:
  [[nodiscard]] static Result<std::unique_ptr<FabricMemory>, std::string> make(
      fabric::Fabric& fabric, size_t bytes, bool remote);
  FabricMemory(const FabricMemory&) = delete;
  FabricMemory& operator=(const FabricMemory&) = delete;
  // After the connection that uses it has ended.
  ~FabricMemory();
  [[nodiscard]] std::span<uint8_t> bytes() const { return bytes_; }
  [[nodiscard]] uint32_t rkey() const { return key_.remote; }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(bytes_.data()); }

 private:
  FabricMemory(fabric::Fabric& fabric, std::span<uint8_t> bytes, fabric::Key key)
      : fabric_(fabric), bytes_(bytes), key_(key) {}
  fabric::Fabric& fabric_;
  std::span<uint8_t> bytes_;
  fabric::Key key_;
};

// Messages of one connection, in order.
class Outbox {
 public:
  void send(fabric::Fabric& fabric, fabric::ConnectionId connection,
            std::span<const uint8_t> message);
  void go_on(fabric::Fabric& fabric, fabric::ConnectionId connection);
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  // More than any peer leaves waiting that takes them at all.
  [[nodiscard]] bool full() const { return bytes_ > kMaxWaitingBytes; }

 private:
  static constexpr size_t kMaxWaitingBytes = 64u << 20;
  std::deque<std::vector<uint8_t>> waiting_;
  size_t bytes_ = 0;  // of these, with what each costs
};

class Loop {
 public:
  // The fabric outlives it.
  explicit Loop(fabric::Fabric& fabric) : fabric_(fabric) {}
  [[nodiscard]] Result<void, std::string> start(size_t workers);

  // Polls and sleeps until `over` says so; `each` is called in between. `next` is the time at which
  // it must be called at the latest.
  void run(fabric::Handler& handler, const std::function<void()>& each,
           const std::function<bool()>& over, const std::function<Time()>& next);
  // By any thread, or a signal's handler.
  void wake() const;
  void run_job(Workers::Job work, Workers::Job done) {
    workers_.run(std::move(work), std::move(done));
  }
  void stop_workers() { workers_.stop(); }
  [[nodiscard]] static Time now();

 private:
  void sleep(fabric::Handler& handler, Time until);

  fabric::Fabric& fabric_;
  UniqueFd epoll_;
  UniqueFd wake_;
  Workers workers_;
};

}  // namespace verbena::transfer
