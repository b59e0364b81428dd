// SPDX-License-Identifier: Apache-2.0
// The fabric over libfabric itself. Each connection has an endpoint of its own, and a control
// connection (TCP) that makes it and whose end is its end.
//
//   ofi_fabric.cc       opening, poll(), what to sleep on
//   ofi_connections.cc  from connect() and greetings of peers to the end
//   ofi_work.cc         memory, messages, completions
//   ofi_operations.cc   reads and writes
//
// Invariants: endpoints make progress in poll() alone; a connection is destroyed, and its endpoint
// closed, before on_ended() is told.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/kernel_random.h"
#include "base/mutex.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "fabric/message_pool.h"
#include "fabric/notices.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_fabric.h"
#include "fabric/ofi_greeting.h"

namespace verbena::fabric {

// What epoll tells of the listener; no connection has this id.
inline constexpr uint64_t kOfiListenerEvent = 0;

class OfiFabric final : public Fabric {
 public:
  explicit OfiFabric(const OfiOptions& options)
      : options_(options),
        sent_(options.sends, static_cast<uint32_t>(kOfiHeaderBytes) + options.message_bytes) {}
  ~OfiFabric() override;

  [[nodiscard]] Result<void> open();

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string kind() const override { return "ofi:" + domain_->provider(); }
  [[nodiscard]] std::vector<Offer> offers() const override {
    if (port_ == 0) return {};
    return {{kind(), port_}};
  }
  [[nodiscard]] size_t message_bytes() const override { return options_.message_bytes; }
  [[nodiscard]] Result<Endpoint> listen(const Endpoint& at) override;
  using Fabric::connect;
  [[nodiscard]] ConnectionId connect(const Endpoint& to, std::span<const uint8_t> data) override;
  [[nodiscard]] Result<Key> add_memory(uint8_t* memory, size_t bytes, bool remote) override;
  void remove_memory(const Key& key) override;
  [[nodiscard]] std::span<uint8_t> message_room(ConnectionId connection) override;
  void send(ConnectionId connection, size_t bytes) override;
  void flush() override;
  void read(ConnectionId connection, std::span<const Remote> from, std::span<const Local> to,
            OperationId operation) override {
    start(true, connection, to, from, operation);
  }
  void write(ConnectionId connection, std::span<const Local> from, std::span<const Remote> to,
             OperationId operation) override {
    start(false, connection, from, to, operation);
  }
  void write_immediate(ConnectionId connection, std::span<const uint8_t> from, const Remote& to,
                       uint32_t immediate, OperationId operation) override;
  void end(ConnectionId connection) override;
  size_t poll(Handler& handler) override;
  void arm() override;
  void woken() override { looks_ = std::max(looks_, 1U); }
  [[nodiscard]] int fd() const override { return wake_.get(); }

 private:
  using Connection = OfiConnection;
  // A piece of memory. Without a region if the provider needs none.
  struct Memory {
    const uint8_t* begin = nullptr;
    size_t bytes = 0;
    UniqueFid<fid_mr> region{};
  };

  // --- opening and polling
  [[nodiscard]] size_t poll_sockets(Handler& handler);
  [[nodiscard]] size_t poll_endpoint(Connection& connection, Handler& handler);
  [[nodiscard]] bool watch(int fd, uint64_t what, uint32_t events, bool again) const;
  void ring(Connection& connection);
  void set_timer(Duration wait);
  [[nodiscard]] bool needs_looks(const Connection& connection) const;
  void look_for_stalls();
  void give_memory_back();

  // --- connections
  [[nodiscard]] Connection& add_connection();
  [[nodiscard]] Connection* find(ConnectionId id);
  // How many have come.
  size_t accept_all();
  void pause_accepting();
  void resume_accepting();
  void on_control(Connection& connection, Handler& handler);
  void on_greeting(Connection& connection, Greeting greeting, Handler& handler);
  void on_connect(Connection& connection, const Greeting& greeting, Handler& handler);
  void on_accept(Connection& connection, const Greeting& greeting, Handler& handler);
  [[nodiscard]] Result<void> open_endpoint(Connection& connection);
  [[nodiscard]] Result<void> set_peer(Connection& connection, const Greeting& greeting);
  [[nodiscard]] Greeting greeting_of(const Connection& connection, Greeting::Kind kind) const;
  void reject(Connection& connection, std::string_view why);
  void establish(Connection& connection, Handler& handler);
  void fail_connection(Connection& connection, std::string why);
  void tell_failure(ConnectionId id, std::string_view why, Handler& handler);
  void watch_control(Connection& connection);
  void say(Connection& connection, uint8_t what);
  void on_said(Connection& connection);
  void settle(Connection& connection);
  [[nodiscard]] bool may_close(Connection& connection, Duration overdue);
  void abandon(std::unique_ptr<Connection> connection);
  void close_endpoints();
  void destroy(ConnectionId id, Handler& handler);

  // --- work
  [[nodiscard]] OfiWork& take_work(Connection& connection, OfiWork::Kind kind);
  void give_work(Connection& connection, OfiWork& work);
  [[nodiscard]] Result<UniqueFid<fid_mr>> register_memory(void* memory, size_t bytes,
                                                          uint64_t access, uint64_t key) const;
  [[nodiscard]] uint32_t key_of(const Local& local) const;
  [[nodiscard]] void* descriptor_of(uint32_t key) const;
  void post_receive(Connection& connection, uint32_t index);
  void enqueue(Connection& connection, uint32_t index, OfiMessage kind, size_t bytes,
               uint64_t immediate_of);
  void send_hello(Connection& connection);
  void post_messages(Connection& connection);
  [[nodiscard]] bool has_room_for(const Connection& connection) const {
    return connection.messages < sent_.free();
  }
  void offer_room(Connection& connection, Handler& handler);
  void serve_waiting(Handler& handler);
  void start(bool is_read, ConnectionId connection, std::span<const Local> ours,
             std::span<const Remote> theirs, OperationId operation);
  void post_backlog(Connection& connection);
  [[nodiscard]] bool prepare(Connection& connection, Transfer& transfer);
  // False: libfabric takes no more now, or the connection has failed.
  [[nodiscard]] bool post(Connection& connection, const Connection::Request& request);
  void send_immediates(Connection& connection);
  void on_completion(Connection& connection, const fi_cq_msg_entry& entry, Handler& handler);
  void on_error(Connection& connection, const fi_cq_err_entry& entry, Handler& handler);
  void on_received(Connection& connection, OfiWork& work, size_t bytes, Handler& handler);
  void deliver(Connection& connection, std::span<const uint8_t> message, Handler& handler);
  void on_sent(Connection& connection, OfiWork& work);
  void on_moved(Connection& connection, uint64_t transfer, bool good, Handler& handler);
  void go_on(Connection& connection, Handler& handler);

  const OfiOptions options_;
  std::unique_ptr<OfiDomain> domain_;
  size_t max_parts_ = 1;
  KernelRandom random_;
  UniqueFd wake_;   // an epoll of all below, and of what connections have
  UniqueFd timer_;  // for endpoints that wake nobody
  UniqueFd listener_;
  uint16_t port_ = 0;        // where it listens
  std::string node_prefix_;  // of the names of endpoints, where they have names
  uint64_t next_node_ = 1;

  mutable Mutex memory_mutex_;  // memory is added and removed by any thread
  std::unordered_map<uint64_t, Memory> keys_ VERBENA_GUARDED_BY(memory_mutex_);  // by number
  uint64_t next_key_ VERBENA_GUARDED_BY(memory_mutex_) = 1;
  // Our own, by its beginning: the number.
  std::map<const uint8_t*, uint64_t> memory_ VERBENA_GUARDED_BY(memory_mutex_);
  KernelRandom key_random_ VERBENA_GUARDED_BY(memory_mutex_);

  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> all_;        // the same; those that come are added at the end
  std::deque<ConnectionId> beginners_;  // accepted, and not yet connected; the oldest first
  MessagePool sent_;
  UniqueFid<fid_mr> sent_key_;
  std::deque<ConnectionId> waiting_;                       // for buffers that others have
  std::vector<ConnectionId> to_post_;                      // those that have messages to be posted
  std::optional<std::pair<ConnectionId, uint32_t>> room_;  // handed out: for whom, which
  ConnectionId next_connection_ = 1;
  uint64_t next_transfer_ = 1;
  Notices notices_;
  bool freed_ = false;      // endpoints were closed since give_memory_back()
  bool try_again_ = false;  // libfabric took no more since arm()
  uint32_t looks_ = 2;      // so many polls look at sockets, then few do
  uint32_t polls_ = 0;
  Time now_ = 0;
  Time event_ = 0;           // when there last was one
  Time stalls_at_ = 0;       // when to look for peers that take nothing
  Time accept_at_ = kNever;  // when to look at the listener again, if it was paused
};

}  // namespace verbena::fabric
