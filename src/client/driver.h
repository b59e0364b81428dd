// SPDX-License-Identifier: Apache-2.0
// Carries out what the client's session wants: the TCP connection, the fabric, memory, time. Under
// one lock; one of those who wait for an answer drives it, and when nobody waits, a thread of its
// own.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <unordered_map>

#include "base/kernel_random.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/memory_cache.h"
#include "client/side_socket.h"

namespace verbena::client {

class Driver final : private fabric::Handler {
 public:
  using Completed = std::function<void(session::Completion&&)>;

  Driver(const Options& options, std::unique_ptr<fabric::Fabric> fabric);
  ~Driver() override;

  // Until there is a session, or why there is none.
  [[nodiscard]] Result<void> start();

  // --- requests: `done` is called without the lock
  void submit(const protocol::Request& request, Completed done);
  struct Io {
    bool write = false;
    bool repeatable = false;
    ObjectRef object{};
    uint64_t offset = 0;
    std::vector<std::span<uint8_t>> memory{};
    uint32_t crc = 0;            // of what is written
    bool caller_checks = false;  // what is read
  };
  void transfer(const Io& io, Completed done);
  // Memory of a request whose data was spoilt.
  void forget(const Io& io);
  // Calls begin(done), drives until done(value) was called, and returns the value.
  template <typename T, typename Begin>
  [[nodiscard]] T await(Begin begin);

  [[nodiscard]] protocol::Limits limits() const;
  [[nodiscard]] std::string why_lost() const;
  [[nodiscard]] std::string fabric_name() const;
  void set_passive_wait(bool on);
  std::atomic<uint64_t> reconnects{0};
  std::atomic<uint64_t> repeated{0};

 private:
  struct Request {
    Completed done;
    std::vector<MemoryCache::Entry*> memory;
  };
  struct Finished {
    Completed done;
    session::Completion completion;
  };

  // --- the fabric
  void on_connected(fabric::ConnectionId connection) override VERBENA_REQUIRES(mutex_);
  void on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) override
      VERBENA_REQUIRES(mutex_);
  void on_sendable(fabric::ConnectionId connection) override VERBENA_REQUIRES(mutex_);
  void on_done(fabric::ConnectionId connection, fabric::OperationId operation, bool good) override
      VERBENA_REQUIRES(mutex_);
  void on_failed(fabric::ConnectionId connection, std::string_view why) override
      VERBENA_REQUIRES(mutex_);
  void on_ended(fabric::ConnectionId connection) override VERBENA_REQUIRES(mutex_);

  // --- what the session wants
  void carry_out_actions() VERBENA_REQUIRES(mutex_);
  void carry_out(session::ConnectSide& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::SendSide& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::CloseSide& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::ConnectFabric& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::EndFabric& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::Fence& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::Completed& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::SessionReady& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::SessionLost& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::ClientRefused& action) VERBENA_REQUIRES(mutex_);
  void carry_out(session::ClientClosed& action) VERBENA_REQUIRES(mutex_);

  // True: something has happened.
  [[nodiscard]] bool drive() VERBENA_REQUIRES(mutex_);
  void send_messages() VERBENA_REQUIRES(mutex_);
  void take_side_events() VERBENA_REQUIRES(mutex_);
  // Whoever sleeps is woken when there is more to do.
  void leave() VERBENA_REQUIRES(mutex_);
  void leave_to_thread() VERBENA_REQUIRES(mutex_);
  // Calls those who wait; the lock is given up for that.
  void tell() VERBENA_REQUIRES(mutex_);
  void after_submit() VERBENA_REQUIRES(mutex_);
  void enter() VERBENA_EXCLUDES(mutex_);
  void wait(const bool& done) VERBENA_EXCLUDES(mutex_);
  void lead(const bool& done) VERBENA_REQUIRES(mutex_);
  void work() VERBENA_EXCLUDES(mutex_);
  void work_awhile() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool sleep() VERBENA_REQUIRES(mutex_);
  void wake() const;
  void set_epoll() VERBENA_REQUIRES(mutex_);
  // Answers, or the last step of connecting.
  [[nodiscard]] bool expects_messages() const VERBENA_REQUIRES(mutex_) {
    return machine_->pending() > 0 || !machine_->active();
  }
  [[nodiscard]] Time deadline() const VERBENA_REQUIRES(mutex_) { return now_ + options_.timeout; }
  [[nodiscard]] static Time read_clock();

  const Options options_;
  mutable Mutex mutex_;
  const std::unique_ptr<fabric::Fabric> fabric_ VERBENA_PT_GUARDED_BY(mutex_);
  KernelRandom random_ VERBENA_GUARDED_BY(mutex_);
  Condition changed_;                               // for those who wait and do not drive
  UniqueFd epoll_;                                  // made by start()
  UniqueFd wake_;                                   // likewise
  bool armed_ VERBENA_GUARDED_BY(mutex_) = false;   // the fabric wakes whoever sleeps
  bool leader_ VERBENA_GUARDED_BY(mutex_) = false;  // a thread that waits drives
  // Until wake(), or the fabric has something.
  bool leader_asleep_ VERBENA_GUARDED_BY(mutex_) = false;
  uint32_t waiters_ VERBENA_GUARDED_BY(mutex_) = 0;  // threads that wait, or are about to
  Duration busy_poll_ VERBENA_GUARDED_BY(mutex_);    // without an answer, until one sleeps
  enum class Thread : uint8_t {
    kAwake,   // will look before it sleeps
    kAsleep,  // on the fabric
    kAside,   // until thread_turn_
  };
  Thread thread_ VERBENA_GUARDED_BY(mutex_) = Thread::kAwake;
  Condition thread_turn_;
  bool stopping_ VERBENA_GUARDED_BY(mutex_) = false;
  Time now_ VERBENA_GUARDED_BY(mutex_) = 0;
  Time side_at_ VERBENA_GUARDED_BY(mutex_) = 0;  // when to look at the side channel again

  std::optional<session::Client> machine_ VERBENA_GUARDED_BY(mutex_);
  SideSocket side_ VERBENA_GUARDED_BY(mutex_);
  session::Attempt side_attempt_ VERBENA_GUARDED_BY(mutex_) = 0;
  // Of which attempt, and for writing too.
  std::pair<session::Attempt, bool> side_watched_ VERBENA_GUARDED_BY(mutex_){};
  fabric::ConnectionId connection_ VERBENA_GUARDED_BY(mutex_) = 0;  // 0: none
  session::Attempt fabric_attempt_ VERBENA_GUARDED_BY(mutex_) = 0;
  bool ending_ VERBENA_GUARDED_BY(mutex_) = false;  // the session waits for its end
  MemoryCache memory_ VERBENA_GUARDED_BY(mutex_);
  std::unordered_map<session::RequestId, Request> requests_ VERBENA_GUARDED_BY(mutex_);
  std::vector<Finished> finished_ VERBENA_GUARDED_BY(mutex_);
  protocol::Limits limits_ VERBENA_GUARDED_BY(mutex_){};
  bool ready_ VERBENA_GUARDED_BY(mutex_) = false;  // there was a session at least once
  bool closed_ VERBENA_GUARDED_BY(mutex_) = false;
  std::optional<std::string> refused_ VERBENA_GUARDED_BY(mutex_);
  Code refusal_ VERBENA_GUARDED_BY(mutex_) = Code::kRefused;
  std::string why_lost_ VERBENA_GUARDED_BY(mutex_);
  std::thread worker_;
};

template <typename T, typename Begin>
T Driver::await(Begin begin) {
  std::optional<T> value;
  bool done = false;
  enter();
  begin([&](T&& result) {
    const MutexLock lock(mutex_);
    value.emplace(std::move(result));
    done = true;
    if (waiters_ > 1) changed_.notify_all();
    if (leader_asleep_) wake();
  });
  wait(done);
  return std::move(*value);
}

}  // namespace verbena::client
