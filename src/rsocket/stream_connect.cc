// SPDX-License-Identifier: Apache-2.0
// How streams come about, and what is heard of their ends.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>

#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

// RC alone carries a stream: no READs, and the transport waits for receives for ever.
[[nodiscard]] rdma_conn_param params_with(const GreetingBytes& greeting) {
  rdma_conn_param params{};
  params.private_data = greeting.data();
  params.private_data_len = kGreetingBytes;
  params.flow_control = 1;
  params.retry_count = params.rnr_retry_count = 7;
  return params;
}

[[nodiscard]] rdma_event_channel* make_channel() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel != nullptr) (void)::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  return channel;
}

[[nodiscard]] std::optional<Greeting> greeting_of(const rdma_cm_event& event) {
  const rdma_conn_param& said = event.param.conn;
  return decode_greeting({static_cast<const uint8_t*>(said.private_data),
                          said.private_data != nullptr ? said.private_data_len : size_t{0}});
}

[[nodiscard]] std::optional<Address> read_address(const sockaddr* address, socklen_t length) {
  if (address == nullptr || length < sizeof(sockaddr_in)) return std::nullopt;
  if (address->sa_family == AF_INET6 && length < sizeof(sockaddr_in6)) return std::nullopt;
  return Address::read(address);
}

void discard(rdma_cm_id* id) {
  (void)rdma_reject(id, nullptr, 0);
  (void)rdma_destroy_id(id);
}

}  // namespace

int Stream::make(int domain, Stream*& made) {
  rdma_event_channel* const channel = make_channel();
  if (channel == nullptr) return errno;
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    const int error = errno;
    rdma_destroy_event_channel(channel);
    return error;
  }
  made = new Stream(domain, channel, id, settings().sizes);
  return 0;
}

Stream::~Stream() {
  refuse_requests();
  unmap_all();
  endpoint_.reset();
  (void)rdma_destroy_id(id_);
  rdma_destroy_event_channel(channel_);
}

int Stream::bind(const sockaddr* address, socklen_t length) {
  const MutexLock lock(mutex_);
  const auto wanted = read_address(address, length);
  if (!wanted) return -EINVAL;
  if (phase_ != Phase::kIdle) return -EINVAL;
  if (rdma_bind_addr(id_, const_cast<sockaddr*>(wanted->raw())) != 0) return -errno;
  phase_ = Phase::kBound;
  return 0;
}

int Stream::listen(int backlog) {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::kListening) return 0;
  if (phase_ == Phase::kIdle) {
    const Address any = Address::wildcard(static_cast<sa_family_t>(domain()));
    if (rdma_bind_addr(id_, const_cast<sockaddr*>(any.raw())) != 0) return -errno;
    phase_ = Phase::kBound;
  }
  if (phase_ != Phase::kBound) return -EINVAL;
  // 0 is the most there is to rdma_cm, and the least to sockets.
  if (rdma_listen(id_, std::max(backlog, 1)) != 0) return -errno;
  phase_ = Phase::kListening;
  return 0;
}

int Stream::make_endpoint() {
  if (const int error = Endpoint::make(id_, sizes_, endpoint_); error != 0) return error;
  sizes_ = endpoint_->sizes();
  send_.emplace(sizes_.send_bytes, sizes_.send_places);
  receive_.emplace(sizes_.receive_bytes, static_cast<uint16_t>(sizes_.receive_places));
  peer_mappings_.resize(sizes_.iomap_entries);
  return 0;
}

void Stream::begin_flow(const Greeting& peer) {
  peer_ = peer;
  send_->begin(peer.credits, peer.buffer);
}

// ---- the side that connects

int Stream::next_event(rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return errno;
  const int error = event->event == wanted ? 0 : std::max(std::abs(event->status), 1);
  (void)rdma_ack_cm_event(event);
  return error;
}

// The way to the peer is known at once; only the peer itself takes its time.
int Stream::begin_connection(const Address& to) {
  constexpr int kPatienceMs = 2000;
  auto* const destination = const_cast<sockaddr*>(to.raw());
  if (rdma_resolve_addr(id_, nullptr, destination, kPatienceMs) != 0) return errno;
  if (const int error = next_event(RDMA_CM_EVENT_ADDR_RESOLVED); error != 0) return error;
  if (rdma_resolve_route(id_, kPatienceMs) != 0) return errno;
  if (const int error = next_event(RDMA_CM_EVENT_ROUTE_RESOLVED); error != 0) return error;
  if (const int error = make_endpoint(); error != 0) return error;
  const GreetingBytes greeting = encode(endpoint_->greeting());
  rdma_conn_param params = params_with(greeting);
  return rdma_connect(id_, &params) == 0 ? 0 : errno;
}

int Stream::connect(const sockaddr* address, socklen_t length) {
  const MutexLock lock(mutex_);
  progress();
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kBound:      break;
    case Phase::kConnecting: return -EALREADY;
    case Phase::kRefused:    return error_ != 0 ? -take_error() : -ECONNABORTED;
    case Phase::kListening:  return -EINVAL;
    default:                 return -EISCONN;
  }
  const auto to = read_address(address, length);
  if (!to) return address != nullptr && length >= sizeof(sa_family_t) ? -EAFNOSUPPORT : -EINVAL;
  if (const int error = begin_connection(*to); error != 0) {
    fail(error);
    return -take_error();
  }
  phase_ = Phase::kConnecting;
  if (is_nonblocking(0)) return -EINPROGRESS;
  const int error = wait(false, deadline_of(send_timeout_), [&] {
    mutex_.assert_held();
    return phase_ != Phase::kConnecting;
  });
  if (error != 0) return error == -EAGAIN ? -EINPROGRESS : error;
  return phase_ == Phase::kRefused ? -take_error() : 0;
}

int Stream::await_connection(bool nonblocking, std::optional<Clock::time_point> until) {
  if (phase_ == Phase::kConnecting || phase_ == Phase::kAccepting) {
    const int error = wait(nonblocking, until, [&] {
      mutex_.assert_held();
      return phase_ != Phase::kConnecting && phase_ != Phase::kAccepting;
    });
    if (error != 0) return error;
  }
  if (phase_ == Phase::kRefused && error_ != 0) return -take_error();
  return phase_ >= Phase::kConnected && phase_ != Phase::kRefused ? 0 : -ENOTCONN;
}

// ---- the side that accepts

void Stream::add_request(const rdma_cm_event& event) {
  const auto greeting = greeting_of(event);
  if (!greeting || phase_ != Phase::kListening || event.id->qp_type != IBV_QPT_RC) {
    discard(event.id);
    return;
  }
  requests_.push_back({event.id, *greeting});
}

// Its peer has given up before the program looked.
void Stream::forget_request(rdma_cm_id* id) {
  const auto place = std::ranges::find(requests_, id, &Request::id);
  if (place == requests_.end()) return;
  discard(id);
  requests_.erase(place);
}

void Stream::refuse_requests() {
  for (const Request& request : requests_) discard(request.id);
  requests_.clear();
}

int Stream::accept(Socket*& made) {
  const MutexLock lock(mutex_);
  const auto until = deadline_of(receive_timeout_);
  for (;;) {
    if (phase_ != Phase::kListening) return -EINVAL;
    const int waited = wait(is_nonblocking(0), until, [&] {
      mutex_.assert_held();
      return !requests_.empty() || phase_ != Phase::kListening;
    });
    if (waited != 0) return waited;
    if (requests_.empty()) continue;
    const Request request = requests_.front();
    requests_.pop_front();
    Stream* stream = nullptr;
    const int error = admit(request, stream);
    if (error == 0) {
      made = stream;
      return 0;
    }
    if (stream != nullptr) stream->drop();
    // A peer that has gone meanwhile is not the program's concern.
    if (error != ENOTCONN) return -error;
  }
}

// With the listener's mutex held. The new stream is nobody else's yet. It is not waited for the
// peer's confirmation: it may never come, and a thread may be connecting to itself.
int Stream::admit(const Request& request, Stream*& made) {
  rdma_event_channel* const channel = make_channel();
  if (channel == nullptr || rdma_migrate_id(request.id, channel) != 0) {
    const int error = errno;
    discard(request.id);
    if (channel != nullptr) rdma_destroy_event_channel(channel);
    return error;
  }
  auto* const stream = new Stream(domain(), channel, request.id, sizes_);
  const MutexLock lock(stream->mutex_);
  int error = stream->make_endpoint();
  if (error == 0) {
    stream->begin_flow(request.greeting);
    const GreetingBytes greeting = encode(stream->endpoint_->greeting());
    rdma_conn_param params = params_with(greeting);
    stream->phase_ = Phase::kAccepting;
    // EINVAL: the peer gave up just now.
    if (rdma_accept(request.id, &params) != 0) error = errno == EINVAL ? ENOTCONN : errno;
  }
  made = stream;
  return error;
}

// ---- events

bool Stream::take_events() {
  bool any = false;
  rdma_cm_event* event = nullptr;
  events_looked_at_ = Clock::now();
  while (rdma_get_cm_event(channel_, &event) == 0) {
    any = true;
    rdma_cm_id* const about = event->id;
    const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    if (about == id_ || is_request) on_event(*event);
    (void)rdma_ack_cm_event(event);
    if (about != id_ && !is_request) forget_request(about);
  }
  return any;
}

void Stream::on_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: add_request(event); return;
    case RDMA_CM_EVENT_ESTABLISHED:     on_established(event); return;
    case RDMA_CM_EVENT_REJECTED:        fail(ECONNREFUSED); return;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      fail(event.status != 0 ? std::abs(event.status) : ETIMEDOUT);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      // What the peer said before it left may not have been looked at yet.
      if (phase_ == Phase::kConnected) (void)take_completions();
      fail(ECONNRESET);
      return;
    default: return;
  }
}

void Stream::on_established(const rdma_cm_event& event) {
  if (phase_ == Phase::kConnecting) {
    const auto greeting = greeting_of(event);
    if (!greeting) {
      fail(EOPNOTSUPP);
      (void)rdma_disconnect(id_);
      return;
    }
    begin_flow(*greeting);
  } else if (phase_ != Phase::kAccepting) {
    return;
  }
  phase_ = Phase::kConnected;
  readable_ = writable_ = true;
  give_grants();
}

void Stream::fail(int error) {
  switch (phase_) {
    case Phase::kAccepting:
    case Phase::kConnected: break_off(error == ECONNREFUSED ? ECONNRESET : error); return;
    case Phase::kIdle:
    case Phase::kBound:
    case Phase::kConnecting:
      phase_ = Phase::kRefused;
      error_ = error;
      return;
    default: return;
  }
}

void Stream::break_off(int error) {
  phase_ = Phase::kBroken;
  readable_ = writable_ = false;
  error_ = error;
}

}  // namespace verbena::rsocket
