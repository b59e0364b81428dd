// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_fabric.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

#include <fmt/format.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/ofi_fabric_impl.h"
#include "fabric/stale_regions.h"

namespace verbena::fabric {
namespace {

// What epoll tells, beside kOfiListenerEvent; others are connections' ids, with kEndpointBit for
// their completion queues.
constexpr uint64_t kWakeEvent = UINT64_MAX;
constexpr uint64_t kEndpointBit = uint64_t{1} << 63;

// How often endpoints that wake nobody are looked at, while something is on its way or was so long
// ago at most.
constexpr Duration kLookEvery = kOfiTryAgain;
// Endpoints that have descriptors do not tell by these of all that they have to do for what they
// send, and until they have found each other of nothing; of what arrives they do.
constexpr Duration kLookSeldom = 100 * kMillisecond;
constexpr Duration kRecently = 2 * kMillisecond;
// The peer is to look as well, as long as something is on its way.
constexpr Duration kRingEvery = kMillisecond;
// A peer with which nothing moves for so long is gone: others need the buffers, and some providers
// never tell of an operation whose key was wrong.
constexpr Duration kTakesNothing = 5 * kSecond;
constexpr Duration kGreetingTimeout = 5 * kSecond;

Time monotonic() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace

std::string OfiFabric::name() const { return fmt::format("libfabric, {}", domain_->provider()); }

Result<void> OfiFabric::open() {
  const auto library = OfiLibrary::load(options_.libraries);
  if (!library) return fail(library.error());
  auto domain = OfiDomain::open(**library, options_.provider);
  if (!domain) return fail(domain.error());
  domain_ = std::move(*domain);
  max_parts_ = std::clamp<size_t>(domain_->info().tx_attr->iov_limit, 1, 16);
  wake_.reset(epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!wake_.valid() || !notices_.open() || !timer_.valid() ||
      !watch(notices_.fd(), kWakeEvent, EPOLLIN, false) ||
      !watch(timer_.get(), kWakeEvent, EPOLLIN, false)) {
    return fail(fmt::format("cannot wait for events: {}", std::strerror(errno)));
  }
  {
    const MutexLock lock(memory_mutex_);
    if (random_.seed() != 0 || key_random_.seed() != 0) {
      return fail(std::string("there are no random numbers"));
    }
  }
  if (!domain_->uses_ip()) {
    remove_stale_regions();
    node_prefix_ = fmt::format("{}{}-{:016x}", kRegionPrefix, getpid(), random_.next());
  }
  if (domain_->needs(FI_MR_LOCAL)) {
    auto key = register_memory(sent_.memory(), sent_.size(), FI_SEND, 0);
    if (!key) return fail(key.error());
    sent_key_ = std::move(*key);
  }
  now_ = monotonic();
  return {};
}

OfiFabric::~OfiFabric() {
  close_endpoints();
  all_.clear();
  connections_.clear();
  const MutexLock lock(memory_mutex_);
  keys_.clear();
}

bool OfiFabric::watch(int fd, uint64_t what, uint32_t events, bool again) const {
  epoll_event event{.events = events, .data = {.u64 = what}};
  return epoll_ctl(wake_.get(), again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0;
}

// These take a system call. Whoever sleeps looks after arm(), and when it was woken.
size_t OfiFabric::poll_sockets(Handler& handler) {
  constexpr uint32_t kSeldom = 32;
  if (looks_ > 0) {
    --looks_;
  } else if (++polls_ % kSeldom != 0) {
    return 0;
  }
  std::array<epoll_event, 64> events;
  const int got = epoll_wait(wake_.get(), events.data(), static_cast<int>(events.size()), 0);
  size_t count = 0;
  for (int i = 0; i < got; ++i) {
    const uint64_t what = events[static_cast<size_t>(i)].data.u64;
    if (what == kWakeEvent || (what & kEndpointBit) != 0) continue;
    if (what == kOfiListenerEvent) {
      count += accept_all();
    } else if (Connection* const connection = find(what)) {
      on_control(*connection, handler);
      ++count;
    }
  }
  // A timer that has come stays so until arm() sets it anew: what woke the owner may come between.
  return count;
}

size_t OfiFabric::poll(Handler& handler) {
  now_ = monotonic();
  flush();
  notices_.begin_poll();
  if (now_ >= accept_at_) resume_accepting();
  size_t count = poll_sockets(handler);
  for (size_t i = 0; i < all_.size(); ++i) count += poll_endpoint(*all_[i], handler);
  serve_waiting(handler);
  if (now_ >= stalls_at_) {
    look_for_stalls();
    give_memory_back();
  }
  // Last: what a connection had in its completion queue is told before it is destroyed.
  count += notices_.deliver(
      handler, [&](ConnectionId id, const std::string& why) { tell_failure(id, why, handler); },
      [&](ConnectionId id) { destroy(id, handler); });
  flush();
  notices_.end_poll();
  if (count > 0) event_ = now_;
  return count;
}

size_t OfiFabric::poll_endpoint(Connection& connection, Handler& handler) {
  if (connection.endpoint == nullptr || connection.closing) return 0;
  if (connection.owes_hello) send_hello(connection);
  // The peer's may be closed, and its memory gone.
  if (!domain_->uses_ip() && connection.said_drained && connection.peer_drained) return 0;
  std::array<fi_cq_msg_entry, 32> entries;
  size_t count = 0;
  // Not for ever, however quick the peer is. Each call does little: of writes into our memory one.
  for (int round = 0; round < 16; ++round) {
    const ssize_t got = fi_cq_read(connection.endpoint->cq(), entries.data(), entries.size());
    if (got == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      if (fi_cq_readerr(connection.endpoint->cq(), &error, 0) < 1) break;
      ++count;
      on_error(connection, error, handler);
      continue;
    }
    if (got == -FI_EAGAIN || got == 0) {
      // That is a system call. Of many, those that do nothing of their own are woken by the peer.
      constexpr size_t kMany = 8;
      if (all_.size() > kMany && connection.outstanding == 0) break;
      if (!connection.endpoint->has_more()) break;
      continue;
    }
    if (got < 0) {
      fail_connection(connection, domain_->describe("the endpoint failed", got));
      break;
    }
    count += static_cast<size_t>(got);
    for (ssize_t i = 0; i < got; ++i) {
      on_completion(connection, entries[static_cast<size_t>(i)], handler);
    }
  }
  if (connection.stuck || count > 0) go_on(connection, handler);
  if (connection.state >= Connection::State::kFailed) settle(connection);
  return count;
}

// Of a provider that wakes nobody.
void OfiFabric::ring(Connection& connection) {
  if (!std::exchange(connection.ring, false) || domain_->has_descriptors()) return;
  connection.control.wake();
  connection.rung = now_;
}

bool OfiFabric::needs_looks(const Connection& connection) const {
  if (connection.endpoint == nullptr) return false;
  if (connection.stuck || connection.state == Connection::State::kEnding) return true;
  return !domain_->has_descriptors() && (connection.outstanding > 0 || now_ - event_ < kRecently);
}

void OfiFabric::arm() {
  now_ = monotonic();
  flush();
  looks_ = 2;
  Duration wait = 0;  // none
  const auto at_most = [&](Duration most) { wait = wait == 0 ? most : std::min(wait, most); };
  if (freed_) at_most(kSecond - 1);  // for give_memory_back()
  if (accept_at_ != kNever) at_most(std::max<Duration>(accept_at_ - now_, 1));
  for (Connection* const connection : all_) {
    if (needs_looks(*connection)) at_most(kLookEvery);
    if (connection->endpoint != nullptr && !connection->found) at_most(kMillisecond);
    if (connection->outstanding > 0) at_most(kLookSeldom);
    if (connection->state == Connection::State::kGreeting || connection->outstanding > 0) {
      at_most(kSecond - 1);  // for look_for_stalls()
    }
    if (connection->outstanding > 0 && now_ - connection->rung >= kRingEvery) {
      connection->ring = true;
      ring(*connection);
    }
    if (connection->endpoint != nullptr && domain_->has_descriptors() &&
        (!connection->endpoint->may_sleep() || connection->endpoint->has_more())) {
      at_most(1);
    }
  }
  set_timer(wait);
}

void OfiFabric::set_timer(Duration wait) {
  itimerspec when{};
  when.it_value.tv_nsec = wait;
  static_cast<void>(timerfd_settime(timer_.get(), 0, &when, nullptr));
}

// Peers that take nothing, or do not greet.
void OfiFabric::look_for_stalls() {
  stalls_at_ = now_ + kSecond;
  for (Connection* const connection : all_) {
    if (connection->state == Connection::State::kGreeting &&
        now_ - connection->since > kGreetingTimeout) {
      fail_connection(*connection, "the peer does not answer");
    }
    settle(*connection);
    // Who has asked for the connection waits for its messages to be taken as long as it takes.
    const bool expects = connection->accepted ? connection->outstanding > 0
                                              : connection->outstanding > connection->messages;
    if (connection->state == Connection::State::kConnected && expects &&
        now_ - connection->progress > kTakesNothing) {
      fail_connection(*connection, "the peer takes no messages, or its memory does not answer");
    }
  }
}

// An endpoint has 11 MiB of the heap, which would be kept for others when it is closed.
void OfiFabric::give_memory_back() {
  if (std::exchange(freed_, false)) malloc_trim(0);
}

Result<std::unique_ptr<Fabric>> open_ofi_fabric(const OfiOptions& options) {
  try {
    auto fabric = std::make_unique<OfiFabric>(options);
    if (const auto done = fabric->open(); !done) return fail(done.error());
    return fabric;
  } catch (const std::bad_alloc&) {
    return fail(std::string("there is no memory for messages"));
  }
}

}  // namespace verbena::fabric
