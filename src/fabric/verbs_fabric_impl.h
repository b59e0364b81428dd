// SPDX-License-Identifier: Apache-2.0
// The verbs fabric itself. All connections share one completion queue, one receive queue and one
// pool of buffers to send from; queue pairs are made by us rather than by librdmacm, so that a peer
// does not choose how often we retry, and so that they can have a device's own requests.
//
//   verbs_fabric.cc       opening, closing, poll()
//   verbs_connections.cc  from connect() and requests of peers to the end
//   verbs_work.cc         memory, messages, completions
//   verbs_operations.cc   reads and writes
//
// Invariants: the completion queue has room for all that is posted; a connection is destroyed only
// when none of its requests is outstanding.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "fabric/message_pool.h"
#include "fabric/notices.h"
#include "fabric/part_keys.h"
#include "fabric/verbs_connection.h"
#include "fabric/verbs_fabric.h"
#include "fabric/verbs_library.h"

namespace verbena::fabric {

// Entries of a work request, if the device has as many. A queue pair has memory for the entries of
// all its requests: fewer, if memory of many parts has keys.
inline constexpr size_t kMaxParts = 30;
inline constexpr size_t kMaxPartsBesideKeys = 16;

// "cannot do it: Invalid argument"
[[nodiscard]] std::string describe_error(std::string_view what, int error);

class VerbsFabric final : public Fabric {
 public:
  VerbsFabric(const VerbsLibrary& library, const VerbsOptions& options)
      : library_(library),
        options_(options),
        received_(options.receives, options.message_bytes),
        sent_(options.sends, options.message_bytes) {}
  ~VerbsFabric() override;

  [[nodiscard]] Result<void> open();

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::vector<Offer> offers() const override {
    if (port_ == 0) return {};
    return {{kind(), port_}};
  }
  [[nodiscard]] size_t message_bytes() const override { return options_.message_bytes; }
  [[nodiscard]] bool device_makes_crcs(uint32_t bytes) const override {
    return part_keys_ != nullptr && PartKeys::makes_crcs_of(bytes);
  }
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
  // --- opening and polling
  [[nodiscard]] Result<void> choose_device();
  [[nodiscard]] Result<void> make_queues();
  [[nodiscard]] Result<void> make_message_memory();
  [[nodiscard]] Result<void> watch(int fd) const;
  [[nodiscard]] size_t poll_connections(Handler& handler);
  [[nodiscard]] size_t poll_completions(Handler& handler);

  // --- connections
  [[nodiscard]] Connection& add_connection(rdma_cm_id* cm);
  [[nodiscard]] Connection* find(ConnectionId id);
  [[nodiscard]] bool make_queue_pair(Connection& connection);
  [[nodiscard]] bool move_queue_pair(Connection& connection, ibv_qp_state state);
  [[nodiscard]] bool make_ready(Connection& connection);
  [[nodiscard]] rdma_conn_param parameters(const Connection& connection) const;
  void on_event(const rdma_cm_event& event, Handler& handler);
  void on_connect_request(const rdma_cm_event& event, Handler& handler);
  void on_route(Connection& connection);
  void on_response(Connection& connection, const rdma_cm_event& event, Handler& handler);
  void on_established(Connection& connection, Handler& handler);
  void fail_connection(Connection& connection, std::string why);
  void tell_failure(ConnectionId id, std::string_view why, Handler& handler);
  void end_if_drained(Connection& connection);
  void release(Connection& connection);
  void destroy(ConnectionId id, Handler& handler);

  // --- work
  void start(bool is_read, ConnectionId connection, std::span<const Local> ours,
             std::span<const Remote> theirs, OperationId operation);
  [[nodiscard]] uint32_t key_of(const Local& local) const;
  // Of all connections, beside receives and one kLast for each.
  [[nodiscard]] bool may_post() const {
    return outstanding_ + options_.receives + connections_.size() < completion_entries_;
  }
  [[nodiscard]] bool has_room_for(const Connection& connection) const;
  void wait_for_others(Connection& connection);
  void serve_waiting(Handler& handler);
  void offer_room(Connection& connection, Handler& handler);
  void post_backlog(Connection& connection);
  [[nodiscard]] std::optional<Connection::KeyUse> take_key(const Transfer& transfer, size_t index);
  // The operation at the front of the backlog, before its first request. False: it is not done.
  [[nodiscard]] bool prepare(Connection& connection, Transfer& transfer);
  [[nodiscard]] bool post_next(Connection& connection, Transfer& transfer);
  [[nodiscard]] bool finish(Connection::Posted& posted);
  bool give_keys(const Connection::Posted& posted);
  [[nodiscard]] bool post(Connection& connection, ibv_send_wr& request);
  void post_messages(Connection& connection);
  void drop_messages(Connection& connection, size_t first);
  void post_receive(uint32_t index);
  void on_completion(const ibv_wc& wc, Handler& handler);
  void on_received(Connection* connection, const ibv_wc& wc, Handler& handler);
  void on_work_done(Connection& connection, const ibv_wc& wc, Handler& handler);

  const VerbsLibrary& library_;
  const VerbsOptions options_;
  UniqueFd wake_;                         // an epoll of the three below
  rdma_event_channel* events_ = nullptr;  // of connections
  ibv_comp_channel* channel_ = nullptr;
  ibv_context* context_ = nullptr;  // librdmacm's
  ibv_pd* domain_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_srq* receives_ = nullptr;
  MessagePool received_;
  MessagePool sent_;
  std::unique_ptr<PartKeys> part_keys_;  // nullptr: none
  ibv_mr* received_key_ = nullptr;
  ibv_mr* sent_key_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  uint16_t port_ = 0;  // where it listens
  size_t completion_entries_ = 0;
  size_t max_parts_ = 1;
  uint8_t max_reads_ = 1;  // at once, of a queue pair

  mutable Mutex memory_mutex_;  // memory is added and removed by any thread
  std::unordered_map<uint64_t, ibv_mr*> keys_ VERBENA_GUARDED_BY(memory_mutex_);  // by number
  uint64_t next_key_ VERBENA_GUARDED_BY(memory_mutex_) = 1;
  // Our own, by its beginning.
  std::map<const uint8_t*, ibv_mr*> memory_ VERBENA_GUARDED_BY(memory_mutex_);
  uint32_t looks_ = 2;  // so many polls look at connections, then few do
  uint32_t polls_ = 0;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::unordered_map<uint32_t, Connection*> by_number_;  // of the queue pair
  // Those that wait for what others have: buffers, or entries of the completion queue.
  std::deque<ConnectionId> waiting_;
  size_t outstanding_ = 0;             // of all connections
  std::vector<ConnectionId> to_post_;  // those that have messages to be posted
  ConnectionId next_connection_ = 1;
  uint64_t next_transfer_ = 1;
  std::optional<std::pair<ConnectionId, uint32_t>> room_;  // handed out: for whom, which
  Notices notices_;
  bool armed_ = false;  // once at least
};

}  // namespace verbena::fabric
