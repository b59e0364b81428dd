// SPDX-License-Identifier: Apache-2.0
// Carries out what the client's session wants: the TCP connection, the fabric, memory, time. Under
// one lock; one of those who wait for an answer drives it, and when nobody waits, a thread of its
// own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/kernel_random.h"
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
  void on_connected(fabric::ConnectionId connection) override;
  void on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) override;
  void on_sendable(fabric::ConnectionId connection) override;
  void on_done(fabric::ConnectionId connection, fabric::OperationId operation, bool good) override;
  void on_failed(fabric::ConnectionId connection, std::string_view why) override;
  void on_ended(fabric::ConnectionId connection) override;

  // --- what the session wants
  void carry_out_actions();
  void carry_out(session::ConnectSide& action);
  void carry_out(session::SendSide& action);
  void carry_out(session::CloseSide& action);
  void carry_out(session::ConnectFabric& action);
  void carry_out(session::EndFabric& action);
  void carry_out(session::Fence& action);
  void carry_out(session::Completed& action);
  void carry_out(session::SessionReady& action);
  void carry_out(session::SessionLost& action);
  void carry_out(session::ClientRefused& action);
  void carry_out(session::ClientClosed& action);

  using Lock = std::unique_lock<std::mutex>;
  // All with the lock. True: something has happened.
  [[nodiscard]] bool drive();
  void send_messages();
  void take_side_events();
  // Whoever sleeps is woken when there is more to do.
  void leave();
  void leave_to_thread();
  // Calls those who wait; the lock is given up for that.
  void tell(Lock& lock);
  void after_submit(Lock& lock);
  void enter();
  void wait(const bool& done);
  void lead(Lock& lock, const bool& done);
  void work();
  void work_awhile(Lock& lock);
  [[nodiscard]] bool sleep(Lock& lock);
  void wake() const;
  void set_epoll();
  // Answers, or the last step of connecting.
  [[nodiscard]] bool expects_messages() const {
    return machine_->pending() > 0 || !machine_->active();
  }
  [[nodiscard]] Time deadline() const { return now_ + options_.timeout; }
  [[nodiscard]] static Time read_clock();

  const Options options_;
  std::unique_ptr<fabric::Fabric> fabric_;
  KernelRandom random_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // for those who wait and do not drive
  UniqueFd epoll_;
  UniqueFd wake_;
  bool armed_ = false;          // the fabric wakes whoever sleeps
  bool leader_ = false;         // a thread that waits drives
  bool leader_asleep_ = false;  // until wake(), or the fabric has something
  uint32_t waiters_ = 0;        // threads that wait, or are about to
  enum class Thread : uint8_t {
    kAwake,   // will look before it sleeps
    kAsleep,  // on the fabric
    kAside,   // until thread_turn_
  } thread_ = Thread::kAwake;
  std::condition_variable thread_turn_;
  bool stopping_ = false;
  Time now_ = 0;
  Time side_at_ = 0;  // when to look at the side channel again

  std::optional<session::Client> machine_;
  SideSocket side_;
  session::Attempt side_attempt_ = 0;
  std::pair<session::Attempt, bool> side_watched_{};  // of which attempt, and for writing too
  fabric::ConnectionId connection_ = 0;               // 0: none
  session::Attempt fabric_attempt_ = 0;
  bool ending_ = false;  // the session waits for its end
  MemoryCache memory_;
  std::unordered_map<session::RequestId, Request> requests_;
  std::vector<Finished> finished_;
  protocol::Limits limits_{};
  bool ready_ = false;  // there was a session at least once
  bool closed_ = false;
  std::optional<std::string> refused_;
  std::string why_lost_;
  std::thread worker_;
};

template <typename T, typename Begin>
T Driver::await(Begin begin) {
  std::optional<T> value;
  bool done = false;
  enter();
  begin([&](T&& result) {
    const Lock lock(mutex_);
    value.emplace(std::move(result));
    done = true;
    if (waiters_ > 1) changed_.notify_all();
    if (leader_asleep_) wake();
  });
  wait(done);
  return std::move(*value);
}

}  // namespace verbena::client
