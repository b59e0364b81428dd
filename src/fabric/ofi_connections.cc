// SPDX-License-Identifier: Apache-2.0
// Connections of the fabric over libfabric: made, failed, ended.
//
//   connect()  control connection, endpoint, CONNECT -> ACCEPT: peer known -> HELLO, on_connected
//   a peer's   CONNECT -> endpoint, peer known, ACCEPT -> HELLO -> on_connected
//
// HELLO is a message from endpoint to endpoint. So it is always the same end whose provider
// connects to the other's, and both have found each other when on_connected() is told.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/ofi_fabric_impl.h"
#include "fabric/resolve.h"
#include "fabric/stale_regions.h"

namespace verbena::fabric {
namespace {

constexpr int kControlBacklog = 128;
constexpr size_t kMaxConnectData = 256;
// On the control connection, after the greetings; others only wake.
constexpr uint8_t kSayEnding = 'E';
constexpr uint8_t kSayDrained = 'D';

// Where the peer's endpoint is: the port is its word, the address is where it is connected from.
// So nobody makes us connect to others.
Result<std::vector<uint8_t>> reachable_address(const OfiControl& control, uint32_t format,
                                               std::span<const uint8_t> said) {
  sockaddr_storage own{};
  if (said.size() < sizeof(sa_family_t) || said.size() > sizeof own) {
    return fail(std::string("the peer's address has a wrong length"));
  }
  std::memcpy(&own, said.data(), said.size());
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  if (getpeername(control.fd(), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) {
    return fail(std::string("the peer has disconnected"));
  }
  const auto& peer6 = reinterpret_cast<const sockaddr_in6&>(peer);
  if (own.ss_family == AF_INET && said.size() == sizeof(sockaddr_in) && format != FI_SOCKADDR_IN6) {
    auto& four = reinterpret_cast<sockaddr_in&>(own);
    if (peer.ss_family == AF_INET) {
      four.sin_addr = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
    } else if (!IN6_IS_ADDR_V4MAPPED(&peer6.sin6_addr)) {
      return fail(std::string("the peer's address is not valid"));
    } else {
      std::memcpy(&four.sin_addr, peer6.sin6_addr.s6_addr + 12, sizeof four.sin_addr);
    }
  } else if (own.ss_family == AF_INET6 && peer.ss_family == AF_INET6 &&
             said.size() == sizeof(sockaddr_in6) && format != FI_SOCKADDR_IN) {
    auto& six = reinterpret_cast<sockaddr_in6&>(own);
    six.sin6_addr = peer6.sin6_addr;
    six.sin6_scope_id = peer6.sin6_scope_id;
  } else {
    return fail(std::string("the peer's address is not valid"));
  }
  const auto* const begin = reinterpret_cast<const uint8_t*>(&own);
  return std::vector<uint8_t>(begin, begin + said.size());
}

// What a peer says, for people: it does nothing to their terminals.
std::string printable(std::span<const uint8_t> text) {
  std::string shown(text.begin(), text.end());
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

}  // namespace

Result<Endpoint> OfiFabric::listen(const Endpoint& at) {
  VERBENA_CHECK(!listener_.valid());
  const auto address = resolve(at, true);
  if (!address) return fail(address.error());
  UniqueFd fd(socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  sockaddr_storage got{};
  socklen_t bytes = sizeof got;
  const socklen_t length =
      address->ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (fd.valid()) {
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->ss_family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    }
  }
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), length) != 0 ||
      ::listen(fd.get(), kControlBacklog) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&got), &bytes) != 0 ||
      !watch(fd.get(), kOfiListenerEvent, EPOLLIN, false)) {
    return fail(fmt::format("cannot listen on TCP port {}: {}", at.port, std::strerror(errno)));
  }
  listener_ = std::move(fd);
  const uint16_t port = got.ss_family == AF_INET6
                            ? reinterpret_cast<const sockaddr_in6&>(got).sin6_port
                            : reinterpret_cast<const sockaddr_in&>(got).sin_port;
  port_ = ntohs(port);
  return Endpoint{at.host, port_};
}

OfiConnection& OfiFabric::add_connection() {
  auto connection = std::make_unique<Connection>();
  connection->id = next_connection_++;
  connection->nonce = random_.next();
  connection->since = now_;
  Connection& added = *connection;
  connections_.emplace(added.id, std::move(connection));
  all_.push_back(&added);
  return added;
}

OfiConnection* OfiFabric::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

void OfiFabric::watch_control(Connection& connection) {
  if (connection.peer_gone) return;
  const uint32_t events = EPOLLIN | (connection.control.wants_to_write() ? uint32_t{EPOLLOUT} : 0U);
  if (events == connection.watched) return;
  static_cast<void>(watch(connection.control.fd(), connection.id, events, connection.watched != 0));
  connection.watched = events;
}

ConnectionId OfiFabric::connect(const Endpoint& to, std::span<const uint8_t> data) {
  Connection& connection = add_connection();
  connection.data.assign(data.begin(), data.end());
  connection.reported = true;
  const auto address = resolve(to, false);
  auto control = address ? OfiControl::connect(*address) : fail(address.error());
  if (!control) {
    fail_connection(connection, control.error());
  } else {
    connection.control = std::move(*control);
    watch_control(connection);
  }
  return connection.id;
}

size_t OfiFabric::accept_all() {
  size_t count = 0;
  for (; count < kControlBacklog; ++count) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid() && errno == ECONNABORTED) continue;
    if (!fd.valid()) {
      // Without descriptors those who wait would wake us again and again.
      if (errno != EAGAIN && errno != EINTR) pause_accepting();
      break;
    }
    if (connections_.size() >= options_.max_connections) continue;
    // Whoever does not go on makes room for others.
    if (beginners_.size() >= options_.max_beginners) {
      if (Connection* const oldest = find(beginners_.front())) {
        fail_connection(*oldest, "others want to connect");
      }
    }
    Connection& connection = add_connection();
    connection.accepted = true;
    beginners_.push_back(connection.id);
    connection.control = OfiControl(std::move(fd));
    watch_control(connection);
  }
  return count;
}

void OfiFabric::pause_accepting() {
  constexpr Duration kPause = 100 * kMillisecond;
  static_cast<void>(watch(listener_.get(), kOfiListenerEvent, 0, true));
  accept_at_ = now_ + kPause;
}

void OfiFabric::resume_accepting() {
  accept_at_ = kNever;
  static_cast<void>(watch(listener_.get(), kOfiListenerEvent, EPOLLIN, true));
}

void OfiFabric::on_control(Connection& connection, Handler& handler) {
  const bool connecting = connection.control.connecting();
  bool alive = connection.control.progress(connection.greeting, Greeting::kMaxBytes);
  if (alive && connecting && !connection.control.connecting()) {
    if (const auto done = open_endpoint(connection); !done) {
      return fail_connection(connection, done.error());
    }
    connection.control.send(encode(greeting_of(connection, Greeting::Kind::kConnect)));
    alive = connection.control.progress(connection.greeting, Greeting::kMaxBytes);
  }
  if (!connection.greeted && !connection.greeting.empty()) {
    auto greeting = take_greeting(connection.greeting);
    if (!greeting) return fail_connection(connection, greeting.error());
    if (*greeting) {
      connection.greeted = true;
      on_greeting(connection, std::move(**greeting), handler);
    }
  }
  if (connection.greeted && !connection.greeting.empty()) on_said(connection);
  if (alive) {
    watch_control(connection);
  } else {
    connection.peer_gone = true;
    fail_connection(connection, connection.control.why());
    // Not to wake us again and again until it is ended.
    epoll_ctl(wake_.get(), EPOLL_CTL_DEL, connection.control.fd(), nullptr);
  }
  settle(connection);
}

// Single bytes, after the greetings.
void OfiFabric::on_said(Connection& connection) {
  for (const uint8_t byte : std::exchange(connection.greeting, {})) {
    if (byte == kSayEnding) {
      connection.peer_ending = true;
      fail_connection(connection, "the peer has disconnected");
    } else if (byte == kSayDrained) {
      connection.peer_drained = true;
    }
  }
}

void OfiFabric::say(Connection& connection, uint8_t what) {
  connection.control.send(std::span(&what, 1));
  if (!connection.control.progress(connection.greeting, Greeting::kMaxBytes)) {
    connection.peer_gone = true;
  }
  // Nothing wakes us again for what has come meanwhile.
  on_said(connection);
  watch_control(connection);
}

// An endpoint must not be closed while either end uses the other's: one that shares memory with its
// peer takes it away. Each end posts no more, waits until it has nothing under way, and says so. A
// peer that is gone, or does not get so far, is not waited for; one in this process longer, for
// what it uses would not be there any more. Nor is one that never was connected and shares nothing.
void OfiFabric::settle(Connection& connection) {
  constexpr Duration kLongest = 2 * kSecond;
  using State = Connection::State;
  if (connection.state < State::kFailed || connection.closing) return;
  const bool ending = connection.state == State::kEnding;
  const auto talks = [&] {
    return connection.greeted && connection.endpoint != nullptr && !connection.peer_gone;
  };
  if (talks() && !std::exchange(connection.said_ending, true)) say(connection, kSayEnding);
  if (talks() && connection.under_way() == 0 && !std::exchange(connection.said_drained, true)) {
    say(connection, kSayDrained);
  }
  if (!ending) return;
  const Duration waited = now_ - connection.ending;
  const Duration longest = connection.same_process ? 2 * kLongest : kLongest;
  const bool drained = connection.said_drained && connection.peer_drained;
  const bool waits = connection.reported || !domain_->uses_ip();
  if (waits && talks() && !drained && waited <= longest) return;
  if (!may_close(connection, waited - longest)) return;
  connection.closing = true;
  notices_.add({Notice::What::kEnded, connection.id, 0, {}});
}

// libfabric 1.17 crashes if an endpoint of ofi_rxm is closed while a read is under way: of the
// read's request it tells without a context, which ofi_rxm does not expect. If the connection
// breaks, it tells of all in order: so it is broken first. One that does not tell, cut off as it
// is, is not closed at all.
bool OfiFabric::may_close(Connection& connection, Duration overdue) {
  constexpr Duration kBreaks = 5 * kSecond;
  if (connection.endpoint == nullptr || !domain_->uses_ip()) return true;
  if (connection.under_way() == 0) return true;
  if (!std::exchange(connection.disconnected, true)) connection.endpoint->disconnect();
  connection.abandoned = overdue > kBreaks;
  return connection.abandoned;
}

void OfiFabric::on_greeting(Connection& connection, Greeting greeting, Handler& handler) {
  using Kind = Greeting::Kind;
  if (connection.accepted && greeting.kind == Kind::kConnect) {
    return on_connect(connection, greeting, handler);
  }
  if (!connection.accepted && greeting.kind == Kind::kAccept) {
    return on_accept(connection, greeting, handler);
  }
  if (!connection.accepted && greeting.kind == Kind::kReject) {
    return fail_connection(
        connection, fmt::format("the peer rejects the connection{}{}",
                                greeting.data.empty() ? "" : ": ", printable(greeting.data)));
  }
  fail_connection(connection, "the peer does not speak this protocol");
}

Greeting OfiFabric::greeting_of(const Connection& connection, Greeting::Kind kind) const {
  return {.kind = kind,
          .nonce = connection.nonce,
          .format = connection.endpoint->address_format(),
          .provider = domain_->provider(),
          .address = connection.endpoint->address(),
          .data = connection.data};
}

Result<void> OfiFabric::open_endpoint(Connection& connection) {
  // At the address by which the peer reaches us, whatever others the host has.
  connection.node = domain_->uses_ip() ? connection.control.own_host()
                                       : fmt::format("{}-{}", node_prefix_, next_node_++);
  try {
    connection.received = std::make_unique<MessagePool>(
        options_.receives, static_cast<uint32_t>(kOfiHeaderBytes) + options_.message_bytes);
  } catch (const std::bad_alloc&) {
    return fail(std::string("there is no memory for messages"));
  }
  auto opened = OfiEndpoint::open(*domain_, connection.node,
                                  size_t{2} * (options_.work_requests + options_.receives));
  if (!opened) return fail(opened.error());
  if (domain_->needs(FI_MR_LOCAL)) {
    auto key =
        register_memory(connection.received->memory(), connection.received->size(), FI_RECV, 0);
    if (!key) return fail(key.error());
    connection.received_key = std::move(*key);
  }
  connection.endpoint = std::move(*opened);
  if (connection.endpoint->fd() >= 0 &&
      !watch(connection.endpoint->fd(), connection.id | uint64_t{1} << 63, EPOLLIN, false)) {
    return fail(fmt::format("cannot wait for the endpoint: {}", std::strerror(errno)));
  }
  while (const auto index = connection.received->take()) post_receive(connection, *index);
  return {};
}

Result<void> OfiFabric::set_peer(Connection& connection, const Greeting& greeting) {
  if (greeting.provider != domain_->provider() ||
      greeting.format != connection.endpoint->address_format()) {
    return fail(
        fmt::format("the ends use different providers of libfabric: {} here", domain_->provider()));
  }
  connection.peer_nonce = greeting.nonce;
  if (!domain_->uses_ip()) {
    const std::string_view name(reinterpret_cast<const char*>(greeting.address.data()),
                                greeting.address.size());
    if (!is_region_name(name)) return fail(std::string("the peer's address is not valid"));
    connection.same_process = name.contains(fmt::format("{}{}-", kRegionPrefix, getpid()));
    return connection.endpoint->set_peer(greeting.address);
  }
  const auto address = reachable_address(connection.control, greeting.format, greeting.address);
  if (!address) return fail(address.error());
  return connection.endpoint->set_peer(*address);
}

void OfiFabric::reject(Connection& connection, std::string_view why) {
  Greeting greeting{.kind = Greeting::Kind::kReject, .provider = domain_->provider()};
  greeting.data.assign(why.begin(),
                       why.begin() + static_cast<ptrdiff_t>(std::min<size_t>(why.size(), 200)));
  connection.control.send(encode(greeting));
  std::vector<uint8_t> ignored;
  static_cast<void>(connection.control.progress(ignored, 0));
  fail_connection(connection, std::string(why));
}

void OfiFabric::on_connect(Connection& connection, const Greeting& greeting, Handler& handler) {
  auto answer = handler.on_request(connection.id, greeting.data);
  if (!answer) return reject(connection, "");
  VERBENA_CHECK(answer->size() <= kMaxConnectData);
  connection.data = std::move(*answer);
  if (const auto done = open_endpoint(connection); !done) return reject(connection, done.error());
  if (const auto done = set_peer(connection, greeting); !done) {
    return reject(connection, done.error());
  }
  connection.control.send(encode(greeting_of(connection, Greeting::Kind::kAccept)));
  std::vector<uint8_t> early;
  static_cast<void>(connection.control.progress(early, 0));
}

void OfiFabric::on_accept(Connection& connection, const Greeting& greeting, Handler& handler) {
  if (const auto done = set_peer(connection, greeting); !done) {
    return fail_connection(connection, done.error());
  }
  handler.on_accepted(connection.id, greeting.data);
  send_hello(connection);
  if (!domain_->uses_ip()) remove_region_name(connection.node);  // the peer has it
  establish(connection, handler);
}

void OfiFabric::establish(Connection& connection, Handler& handler) {
  if (connection.state != Connection::State::kGreeting) return;
  connection.state = Connection::State::kConnected;
  connection.reported = true;
  std::erase(beginners_, connection.id);
  if (connection.accepted && !domain_->uses_ip()) remove_region_name(connection.node);
  handler.on_connected(connection.id);
}

void OfiFabric::fail_connection(Connection& connection, std::string why) {
  if (connection.state >= Connection::State::kFailed) return;
  connection.state = Connection::State::kFailed;
  std::erase(beginners_, connection.id);
  notices_.add({Notice::What::kFailed, connection.id, 0, std::move(why)});
}

// Of one that the handler does not know of, nothing is told.
void OfiFabric::tell_failure(ConnectionId id, std::string_view why, Handler& handler) {
  const Connection* const connection = find(id);
  if (connection == nullptr || connection->state != Connection::State::kFailed) return;
  if (connection->reported) return handler.on_failed(id, why);
  end(id);
}

void OfiFabric::end(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state == Connection::State::kEnding) return;
  if (connection->state == Connection::State::kConnected) post_messages(*connection);
  connection->state = Connection::State::kEnding;
  if (room_ && room_->first == id) {
    sent_.give(room_->second);
    room_.reset();
  }
  connection->ending = now_;
  settle(*connection);
}

// The endpoint is closed first: then nothing is on its way to or from our memory.
void OfiFabric::destroy(ConnectionId id, Handler& handler) {
  auto node = connections_.extract(id);
  if (node.empty()) return;
  Connection& connection = *node.mapped();
  std::erase(all_, &connection);
  if (!connection.abandoned && connection.endpoint != nullptr) {
    connection.endpoint.reset();
    freed_ = true;
  }
  for (const Connection::Message& message : connection.unposted) sent_.give(message.buffer);
  for (const OfiWork& work : connection.works) {
    if (work.busy && work.kind == OfiWork::Kind::kMessage) sent_.give(work.buffer);
  }
  for (const auto& [number, posted] : connection.posted) {
    handler.on_done(id, posted.operation, false);
  }
  for (const Transfer& transfer : connection.backlog) {
    if (!connection.posted.contains(transfer.number())) {
      handler.on_done(id, transfer.operation(), false);
    }
  }
  if (connection.reported) handler.on_ended(id);
  if (connection.abandoned) abandon(std::move(node.mapped()));
}

// The provider may look at what it was given; nothing else does.
void OfiFabric::abandon(std::unique_ptr<Connection> connection) {
  connection->control = {};
  if (connection->endpoint->fd() >= 0) {
    epoll_ctl(wake_.get(), EPOLL_CTL_DEL, connection->endpoint->fd(), nullptr);
  }
  static_cast<void>(connection.release());
}

// Without the peers' help: what is under way is broken first (may_close()).
void OfiFabric::close_endpoints() {
  struct Nobody final : Handler {
    void on_connected(ConnectionId /*connection*/) override {}
    void on_message(ConnectionId /*connection*/, std::span<const uint8_t> /*message*/) override {}
    void on_sendable(ConnectionId /*connection*/) override {}
    void on_done(ConnectionId /*connection*/, OperationId /*operation*/, bool /*good*/) override {}
    void on_failed(ConnectionId /*connection*/, std::string_view /*why*/) override {}
    void on_ended(ConnectionId /*connection*/) override {}
  } nobody;
  constexpr int kMostRounds = 1000;
  for (auto& [id, connection] : connections_) {
    connection->state = Connection::State::kFailed;
    connection->said_ending = connection->said_drained = true;
    for (int i = 0; i < kMostRounds && !may_close(*connection, 0); ++i) {
      if (poll_endpoint(*connection, nobody) == 0) usleep(1000);
    }
    if (may_close(*connection, 0)) continue;
    abandon(std::move(connection));
  }
}

}  // namespace verbena::fabric
