// SPDX-License-Identifier: Apache-2.0
// The TCP connections of all clients, on libevent: bytes in, bytes out, and their end. What the
// bytes mean is src/session's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "fabric/fabric.h"
#include "session/server.h"

struct bufferevent;
struct event;
struct event_base;
struct evconnlistener;
struct sockaddr;

namespace verbena::server {

class SideChannel {
 public:
  // Who is told. A connection that is closed by close() is not reported.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_side_connection(session::ConnectionId connection) = 0;
    virtual void on_side_bytes(session::ConnectionId connection,
                               std::span<const uint8_t> bytes) = 0;
    virtual void on_side_closed(session::ConnectionId connection) = 0;
  };

  SideChannel(event_base* base, Owner& owner) : base_(base), owner_(owner) {}
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;
  ~SideChannel();

  // On this address; with a port if none was asked for.
  [[nodiscard]] Result<fabric::Endpoint, std::string> listen(const fabric::Endpoint& at);
  // No more of them; those that are there stay.
  void stop_listening();
  // One that does not read is closed, and reported so.
  void send(session::ConnectionId connection, std::span<const uint8_t> bytes);
  // When all is sent, or after a while.
  void close(session::ConnectionId connection);
  [[nodiscard]] size_t open() const { return connections_.size(); }
  // How often a connection could not be taken, since there are no descriptors, or no memory.
  [[nodiscard]] uint64_t not_accepted() const { return not_accepted_; }

 private:
  struct Connection {
    SideChannel* channel = nullptr;
    session::ConnectionId id = 0;
    bufferevent* buffers = nullptr;
    bool closing = false;
  };
  static constexpr size_t kMaxUnsent = 16 * 1024;  // bytes
  static constexpr size_t kMaxConnections = 4096;
  static constexpr int kLingerSeconds = 2;

  static void on_accept(evconnlistener* listener, int fd, sockaddr* address, int length,
                        void* self);
  static void on_accept_failed(evconnlistener* listener, void* self);
  static void on_try_again(int fd, short what, void* self);
  static void on_readable(bufferevent* buffers, void* connection);
  static void on_written(bufferevent* buffers, void* connection);
  static void on_event(bufferevent* buffers, short what, void* connection);
  void add(int fd);
  void drop(Connection& connection);

  event_base* base_;
  Owner& owner_;
  std::vector<evconnlistener*> listeners_;
  event* try_again_ = nullptr;  // takes connections again, after a while in which it could not
  uint64_t not_accepted_ = 0;
  session::ConnectionId next_ = 1;
  std::unordered_map<session::ConnectionId, std::unique_ptr<Connection>> connections_;
};

}  // namespace verbena::server
