// SPDX-License-Identifier: Apache-2.0
#include "server/side_channel.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace verbena::server {

SideChannel::~SideChannel() {
  stop_listening();
  if (try_again_ != nullptr) event_free(try_again_);
  for (const auto& [id, connection] : connections_) bufferevent_free(connection->buffers);
}

void SideChannel::stop_listening() {
  for (evconnlistener* const listener : listeners_) evconnlistener_free(listener);
  listeners_.clear();
}

namespace {

uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Result<fabric::Endpoint, std::string> SideChannel::listen(const fabric::Endpoint& at) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  // Of any address: an IPv6 socket, which takes both.
  hints.ai_family = at.host.empty() ? AF_INET6 : AF_UNSPEC;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(at.port);
  int error =
      getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0 && at.host.empty()) {
    hints.ai_family = AF_INET;
    error = getaddrinfo(nullptr, port.c_str(), &hints, &found);
  }
  if (error != 0) return fail(fmt::format("{}: {}", at.host, gai_strerror(error)));
  evconnlistener* const listener = evconnlistener_new_bind(
      base_, on_accept, this, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
      128, found->ai_addr, static_cast<int>(found->ai_addrlen));
  const int why = errno;
  freeaddrinfo(found);
  if (listener == nullptr) {
    return fail(fmt::format("cannot listen on TCP port {} of {}: {}", at.port,
                            at.host.empty() ? "any address" : at.host, std::strerror(why)));
  }
  listeners_.push_back(listener);
  evconnlistener_set_error_cb(listener, on_accept_failed);
  return fabric::Endpoint{at.host, port_of(evconnlistener_get_fd(listener))};
}

void SideChannel::on_accept(evconnlistener* /*listener*/, int fd, sockaddr* /*address*/,
                            int /*length*/, void* self) {
  static_cast<SideChannel*>(self)->add(fd);
}

// Whoever wants to connect stays in the kernel's queue, for which the listener is readable all the
// time: without a pause the loop would do nothing else.
void SideChannel::on_accept_failed(evconnlistener* /*listener*/, void* self) {
  constexpr timeval kPause{.tv_sec = 0, .tv_usec = 100'000};
  auto& channel = *static_cast<SideChannel*>(self);
  ++channel.not_accepted_;
  if (channel.try_again_ == nullptr) {
    channel.try_again_ = event_new(channel.base_, -1, 0, on_try_again, self);
  }
  if (channel.try_again_ == nullptr || event_add(channel.try_again_, &kPause) != 0) return;
  for (evconnlistener* const each : channel.listeners_) evconnlistener_disable(each);
}

void SideChannel::on_try_again(int /*fd*/, short /*what*/, void* self) {
  for (evconnlistener* const each : static_cast<SideChannel*>(self)->listeners_) {
    evconnlistener_enable(each);
  }
}

void SideChannel::add(int fd) {
  bufferevent* const buffers = connections_.size() >= kMaxConnections
                                   ? nullptr
                                   : bufferevent_socket_new(base_, fd, BEV_OPT_CLOSE_ON_FREE);
  if (buffers == nullptr) {
    ::close(fd);
    return;
  }
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  auto connection = std::make_unique<Connection>(Connection{this, next_++, buffers, false});
  Connection& added = *connection;
  connections_.emplace(added.id, std::move(connection));
  bufferevent_setcb(buffers, on_readable, on_written, on_event, &added);
  bufferevent_enable(buffers, EV_READ | EV_WRITE);
  owner_.on_side_connection(added.id);
}

void SideChannel::drop(Connection& connection) {
  bufferevent_free(connection.buffers);
  connections_.erase(connection.id);
}

void SideChannel::on_readable(bufferevent* buffers, void* argument) {
  auto& connection = *static_cast<Connection*>(argument);
  SideChannel& self = *connection.channel;
  const auto id = connection.id;
  std::array<uint8_t, 4096> bytes;
  // What is told may end it.
  while (self.connections_.contains(id) && !connection.closing) {
    const size_t got = bufferevent_read(buffers, bytes.data(), bytes.size());
    if (got == 0) return;
    self.owner_.on_side_bytes(id, std::span(bytes).first(got));
  }
}

void SideChannel::on_written(bufferevent* /*buffers*/, void* argument) {
  auto& connection = *static_cast<Connection*>(argument);
  if (connection.closing) connection.channel->drop(connection);
}

void SideChannel::on_event(bufferevent* /*buffers*/, short /*what*/, void* argument) {
  auto& connection = *static_cast<Connection*>(argument);
  SideChannel& self = *connection.channel;
  const auto id = connection.id;
  const bool wanted = connection.closing;
  self.drop(connection);
  if (!wanted) self.owner_.on_side_closed(id);
}

void SideChannel::send(session::ConnectionId id, std::span<const uint8_t> bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second->closing) return;
  Connection& connection = *found->second;
  evbuffer* const unsent = bufferevent_get_output(connection.buffers);
  if (evbuffer_get_length(unsent) + bytes.size() > kMaxUnsent) {
    drop(connection);
    owner_.on_side_closed(id);
    return;
  }
  bufferevent_write(connection.buffers, bytes.data(), bytes.size());
}

void SideChannel::close(session::ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second->closing) return;
  Connection& connection = *found->second;
  // Now, if the kernel takes it: so many may come at once that those which must go would pile up.
  evbuffer* const unsent = bufferevent_get_output(connection.buffers);
  if (evbuffer_get_length(unsent) > 0) {
    evbuffer_unfreeze(unsent, 1);
    static_cast<void>(evbuffer_write(unsent, bufferevent_getfd(connection.buffers)));
    evbuffer_freeze(unsent, 1);
  }
  if (evbuffer_get_length(unsent) == 0) return drop(connection);
  connection.closing = true;
  bufferevent_disable(connection.buffers, EV_READ);
  const timeval linger{.tv_sec = kLingerSeconds, .tv_usec = 0};
  bufferevent_set_timeouts(connection.buffers, nullptr, &linger);
}

}  // namespace verbena::server
