// SPDX-License-Identifier: Apache-2.0
// Serves a store over a fabric. One thread, the loop, owns the sessions, the connections and all
// requests; it executes what does not wait, and hands the rest to workers.
//
//   side channel -> Sessions <- messages <- Fabric            read, write: here
//                      |                      ^  RDMA         all else: workers
//                      v                      |
//                    Call -> Hook -> Store ---+-> response
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/counter_set.h"
#include "base/kernel_random.h"
#include "base/workers.h"
#include "fabric/fabric.h"
#include "server/call.h"
#include "server/chunk_memory.h"
#include "server/hook.h"
#include "server/side_channel.h"
#include "server/transfer_room.h"
#include "session/server.h"
#include "store/store.h"

struct event;
struct event_base;

namespace verbena::server {

struct Options {
  fabric::Endpoint listen{};  // of the side channel, and of the fabric; empty host: any address
  session::ServerOptions sessions{};
  size_t workers = 2;
  // How long it looks for work before it sleeps.
  Duration busy_poll = 50 * kMicrosecond;
  // A client that takes no messages for so long is gone.
  Duration stall = 10 * kSecond;
  // So is one whose memory cannot be read or written for so long, while it holds chunks.
  Duration transfer_stall = 30 * kSecond;
  // Of messages that wait for such clients, all together.
  size_t max_unsent_bytes = size_t{64} << 20;
  // What is behind the store, if anything is; and how many requests may wait for it at once.
  cache::Cache* cache = nullptr;
  size_t fetchers = 16;
  // How long requests have to finish once the server is stopped, and then sessions to end.
  Duration drain = 5 * kSecond;
};

enum class Counter : uint8_t {
  kReads,
  kWrites,
  kOthers,
  kReadBytes,
  kWrittenBytes,
  kFailed,  // answered with an error
  kToWorkers,
  kUnsent,   // messages that had to wait for room
  kWaited,   // reads and writes that had to wait, since others hold so many chunks
  kFetched,  // times that a request waited for what is behind the store
  kStalled,  // connections ended because their clients take no messages, or nothing by RDMA
  kCount,
};

class Server final : private SideChannel::Owner, private fabric::Handler {
 public:
  // `memory` is the registrar of the store's medium. All of them outlive this.
  Server(Options options, store::Store& store, ChunkMemory& memory,
         std::unique_ptr<fabric::Fabric> fabric);
  ~Server() override;

  // Listens; where.
  [[nodiscard]] Result<fabric::Endpoint, std::string> start();
  // Until it was stopped and all sessions have ended.
  void run();
  // By any thread, or a signal's handler: new clients are refused, requests finished, sessions
  // ended.
  void stop();
  // By any thread, while it runs: the loop calls `job`, which may look at what is below.
  void run_on_loop(std::function<void()> job) {
    workers_.run([] {}, std::move(job));
  }

  [[nodiscard]] uint64_t counter(Counter counter) const { return counters_[counter]; }
  [[nodiscard]] const session::Server& sessions() const { return *sessions_; }
  [[nodiscard]] size_t requests() const { return calls_.busy(); }
  [[nodiscard]] uint64_t connections_not_accepted() const { return side_->not_accepted(); }

 private:
  // Of the fabric, with what belongs to its session.
  struct Connection {
    session::SessionId session = 0;  // 0: none yet
    ObjectId default_object{};
    bool draining = false;                    // the session waits for its end
    std::deque<std::vector<uint8_t>> unsent;  // messages, while there is no room
    Time progress = 0;                        // when one of these could be sent, or was the first
    std::deque<uint32_t> waiting;             // calls that wait for room to hold chunks
    uint64_t held = 0;                        // bytes, of calls that have it
    Time moved = 0;                           // when one of these was done, or was the first
  };

  // --- what happens
  void on_side_connection(session::ConnectionId connection) override;
  void on_side_bytes(session::ConnectionId connection, std::span<const uint8_t> bytes) override;
  void on_side_closed(session::ConnectionId connection) override;
  void on_connected(fabric::ConnectionId connection) override;
  void on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) override;
  void on_sendable(fabric::ConnectionId connection) override;
  void on_done(fabric::ConnectionId connection, fabric::OperationId operation, bool good) override;
  void on_failed(fabric::ConnectionId connection, std::string_view why) override;
  void on_ended(fabric::ConnectionId connection) override;

  // --- requests
  void start(Call& call, std::span<const uint8_t> message);
  [[nodiscard]] bool may_run_here(const Hook& hook) const;
  void run_elsewhere(Call& call, bool moved);
  // `moved`: of run_moved().
  void go_on(Call& call, Next next, bool moved);
  void fetch(Call& call, bool moved);
  void answer(Call& call);
  void count(const Call& call);

  // --- transfers
  [[nodiscard]] static uint64_t bytes_to_hold(const protocol::Request& request);
  [[nodiscard]] bool take_room(Call& call, Connection& connection);
  void wait_for_room(Call& call, Connection& connection);
  void give(Call& call);
  void serve_waiting();
  void abandon_waiting(fabric::ConnectionId id);
  void transfer(Call& call, bool receive);

  // --- messages
  [[nodiscard]] std::span<uint8_t> room_for(Call& call);
  void send(fabric::ConnectionId id, std::vector<uint8_t> bytes);
  void send_unsent(fabric::ConnectionId id, Connection& connection);
  void drop_unsent(Connection& connection);

  // --- sessions
  void carry_out_actions();
  void carry_out(session::SendFrame& action);
  void carry_out(session::CloseConnection& action);
  void carry_out(session::SendMessage& action);
  void carry_out(session::CloseQueuePair& action);
  void carry_out(session::SessionBegun& action);
  void carry_out(session::DoEndStep& action);
  void carry_out(session::SessionEnded& action);
  void look_for_stalls();

  // --- the loop
  [[nodiscard]] bool work();
  void sleep();
  void on_stop();
  [[nodiscard]] bool finished();
  [[nodiscard]] static Time read_clock();

  Options options_;
  store::Store& store_;
  ChunkMemory& memory_;
  std::unique_ptr<fabric::Fabric> fabric_;
  KernelRandom random_;
  event_base* base_ = nullptr;
  std::vector<event*> events_;
  event* timer_ = nullptr;
  UniqueFd stop_fd_;
  std::optional<SideChannel> side_;
  std::unique_ptr<session::Server> sessions_;
  const Hooks hooks_;
  Calls calls_;
  std::unordered_map<fabric::ConnectionId, Connection> connections_;
  size_t unsent_bytes_ = 0;
  TransferRoom room_;
  std::deque<fabric::ConnectionId> waiting_;  // connections with calls that wait for it
  bool room_given_ = false;                   // since they were served
  Time now_ = 0;
  Time worked_ = 0;     // when there last was something to do
  Time side_at_ = 0;    // when to look at the side channel again, however much there is to do
  Time stalls_at_ = 0;  // likewise
  std::atomic<bool> stop_{false};
  enum class Stopping : uint8_t { kNo, kDraining, kEnding } stopping_ = Stopping::kNo;
  Time stop_at_ = kNever;  // the present stage of it is over
  CounterSet<Counter> counters_;
  Workers fetchers_;
  Workers workers_;  // stopped before the rest goes
};

}  // namespace verbena::server
