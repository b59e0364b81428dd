// SPDX-License-Identifier: Apache-2.0
// A SOCK_STREAM rsocket: a connection of rdma_cm whose ends write into each other's buffers.
// Everything is under the socket's mutex; the calls of rdma_cm and of verbs below it do not wait.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <rdma/rdma_cma.h>

#include "rdmacm/address.h"
#include "rsocket/endpoint.h"
#include "rsocket/flow.h"
#include "rsocket/socket.h"

namespace verbena::rsocket {

class Stream final : public Socket {
 public:
  // 0 or an error number; held once.
  [[nodiscard]] static int make(int domain, Stream*& made);

  [[nodiscard]] int number() const override { return channel_->fd; }
  [[nodiscard]] int bind(const sockaddr* address, socklen_t length) override;
  [[nodiscard]] int listen(int backlog) override;
  [[nodiscard]] int accept(Socket*& made) override;
  [[nodiscard]] int connect(const sockaddr* address, socklen_t length) override;
  [[nodiscard]] int shutdown(int how) override;
  [[nodiscard]] ssize_t receive(Pieces& into, int flags, sockaddr* from,
                                socklen_t* from_length) override;
  [[nodiscard]] ssize_t send(Pieces& from, int flags, const sockaddr* to,
                             socklen_t to_length) override;
  [[nodiscard]] int own_name(sockaddr* address, socklen_t* length) override;
  [[nodiscard]] int peer_name(sockaddr* address, socklen_t* length) override;
  [[nodiscard]] int set_option(int level, int name, const void* value, socklen_t length) override;
  [[nodiscard]] int get_option(int level, int name, void* value, socklen_t* length) override;
  [[nodiscard]] int64_t map(void* buffer, size_t length, int protection, int64_t offset) override;
  [[nodiscard]] int unmap(void* buffer, size_t length) override;
  [[nodiscard]] ssize_t write_mapped(Pieces& from, int64_t offset, int flags) override;
  void close() override;
  void leave(Clock::time_point deadline) override;

 protected:
  ~Stream() override;
  void progress() override VERBENA_REQUIRES(mutex_);
  [[nodiscard]] short state_of(short events) const override VERBENA_REQUIRES(mutex_);
  void arm() override VERBENA_REQUIRES(mutex_);
  [[nodiscard]] SleepSet sleep_set() const override VERBENA_REQUIRES(mutex_);
  void woken(const SleepSet& set) override VERBENA_REQUIRES(mutex_);

 private:
  enum class Phase : uint8_t {
    kIdle,
    kBound,
    kListening,
    kConnecting,
    kAccepting,  // said yes; the peer has not confirmed yet
    kConnected,
    kRefused,  // no connection came about
    kEnded,    // in order; what has arrived can be read
    kBroken,   // likewise, but not in order
  };
  // A peer that wants to connect.
  struct Request {
    rdma_cm_id* id;
    Greeting greeting;
  };
  // A buffer that the program has given to the connection.
  struct Mapped {
    Mapping mapping;
    ibv_mr* region;
    std::optional<uint32_t> index;  // in the peer's list; nothing: for our own use
    bool told;
  };
  struct Options {
    bool reuse_address = false;
    bool keep_alive = false;
    bool out_of_band_inline = false;
    bool no_delay = false;
    bool ipv6_only = false;
    bool linger = false;
    int linger_seconds = 0;
    int keep_idle_seconds = 7200;
  };

  Stream(int domain, rdma_event_channel* channel, rdma_cm_id* id, const Sizes& sizes)
      : Socket(domain, SOCK_STREAM), channel_(channel), id_(id), sizes_(sizes) {}

  // stream_options.cc
  [[nodiscard]] int set_socket_option(int name, const void* value, socklen_t length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int set_tcp_option(int name, const void* value, socklen_t length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int set_ipv6_option(int name, const void* value, socklen_t length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int set_rdma_option(int name, const void* value, socklen_t length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int get_socket_option(int name, void* value, socklen_t* length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int get_tcp_option(int name, void* value, socklen_t* length)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int get_rdma_option(int name, void* value, socklen_t* length)
      VERBENA_REQUIRES(mutex_);

  // stream_connect.cc
  [[nodiscard]] int begin_connection(const rdmacm::Address& to) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int next_event(rdma_cm_event_type wanted) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int admit(const Request& request, Stream*& made) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool take_events() VERBENA_REQUIRES(mutex_);
  void on_event(const rdma_cm_event& event) VERBENA_REQUIRES(mutex_);
  void on_established(const rdma_cm_event& event) VERBENA_REQUIRES(mutex_);
  void add_request(const rdma_cm_event& event) VERBENA_REQUIRES(mutex_);
  void forget_request(rdma_cm_id* id) VERBENA_REQUIRES(mutex_);
  void refuse_requests() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int make_endpoint() VERBENA_REQUIRES(mutex_);
  void begin_flow(const Greeting& peer) VERBENA_REQUIRES(mutex_);
  void fail(int error) VERBENA_REQUIRES(mutex_);
  // Both directions end; `error` is told once.
  void break_off(int error) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int take_error() VERBENA_REQUIRES(mutex_) { return std::exchange(error_, 0); }
  [[nodiscard]] int await_connection(bool nonblocking, std::optional<Clock::time_point> until)
      VERBENA_REQUIRES(mutex_);
  // stream_end.cc
  [[nodiscard]] int finish(int how, Clock::time_point deadline) VERBENA_REQUIRES(mutex_);

  // stream_progress.cc
  [[nodiscard]] bool take_completions() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool on_message(const ibv_wc& completion) VERBENA_REQUIRES(mutex_);
  void on_control(Control control) VERBENA_REQUIRES(mutex_);
  void on_sent(const ibv_wc& completion) VERBENA_REQUIRES(mutex_);
  void give_grants() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int send_control(Control control) VERBENA_REQUIRES(mutex_);

  // stream_data.cc
  [[nodiscard]] int send_piece(Pieces& from, uint32_t bytes) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int send_error() const VERBENA_REQUIRES(mutex_);

  // stream_map.cc
  [[nodiscard]] int tell_mappings(bool nonblocking, std::optional<Clock::time_point> until)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] std::optional<uint32_t> free_index() const VERBENA_REQUIRES(mutex_);
  void unmap_all() VERBENA_REQUIRES(mutex_);

  [[nodiscard]] int copy_name(const sockaddr* name, sockaddr* to, socklen_t* length) const;

  rdma_event_channel* const channel_;
  rdma_cm_id* const id_;
  Sizes sizes_ VERBENA_GUARDED_BY(mutex_);
  Options options_ VERBENA_GUARDED_BY(mutex_);
  Phase phase_ VERBENA_GUARDED_BY(mutex_) = Phase::kIdle;
  bool readable_ VERBENA_GUARDED_BY(mutex_) = false;  // the peer may send more
  bool writable_ VERBENA_GUARDED_BY(mutex_) = false;
  bool finished_ VERBENA_GUARDED_BY(mutex_) = false;  // by us: shutdown() of the sending direction
  int error_ VERBENA_GUARDED_BY(mutex_) = 0;
  Clock::time_point events_looked_at_ VERBENA_GUARDED_BY(mutex_){};
  Clock::time_point progressed_ VERBENA_GUARDED_BY(mutex_){};
  std::deque<Request> requests_ VERBENA_GUARDED_BY(mutex_);
  std::unique_ptr<Endpoint> endpoint_ VERBENA_GUARDED_BY(mutex_);
  std::optional<SendFlow> send_ VERBENA_GUARDED_BY(mutex_);
  std::optional<ReceiveFlow> receive_ VERBENA_GUARDED_BY(mutex_);
  Greeting peer_ VERBENA_GUARDED_BY(mutex_);
  uint32_t own_entry_ VERBENA_GUARDED_BY(mutex_) = 1;     // of our list: written by the peer next
  uint32_t remote_entry_ VERBENA_GUARDED_BY(mutex_) = 1;  // of the peer's list: written by us next
  std::vector<Mapping> peer_mappings_ VERBENA_GUARDED_BY(mutex_);
  std::vector<Mapped> mapped_ VERBENA_GUARDED_BY(mutex_);
  bool mappings_untold_ VERBENA_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::rsocket
