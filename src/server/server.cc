// SPDX-License-Identifier: Apache-2.0
// The loop.
#include "server/server.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <thread>

#include <event2/event.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::server {
namespace {

constexpr Duration kSideChannelEvery = kMillisecond;
constexpr Duration kLongestSleep = kSecond;

}  // namespace

Time Server::read_clock() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Server::Server(Options options, store::Store& store, ChunkMemory& memory,
               std::unique_ptr<fabric::Fabric> fabric)
    : options_(std::move(options)),
      store_(store),
      memory_(memory),
      fabric_(std::move(fabric)),
      hooks_(all_hooks()) {}

Server::~Server() {
  fetchers_.stop();
  workers_.stop();
  side_.reset();
  for (event* const each : events_) event_free(each);
  if (base_ != nullptr) event_base_free(base_);
  // Requests that were cut short hold chunks of the store, which the fabric may still use.
  sessions_.reset();
  memory_.forget_fabric();
  fabric_.reset();
}

Result<fabric::Endpoint, std::string> Server::start() {
  const auto failed = [](const char* what, int error) {
    return fail(fmt::format("{}: {}", what, std::strerror(error)));
  };
  // Of inline data, messages have room for what is agreed on.
  auto& inline_bytes = options_.sessions.limits.inline_bytes;
  inline_bytes = std::min(
      inline_bytes, static_cast<uint32_t>(fabric_->message_bytes() - protocol::kMaxIoOverhead));
  now_ = read_clock();
  if (const int error = random_.seed(); error != 0) return failed("no random numbers", error);
  if (const int error = workers_.start(options_.workers); error != 0) {
    return failed("no threads", error);
  }
  const size_t fetchers = options_.cache == nullptr ? 0 : options_.fetchers;
  if (const int error = fetchers_.start(fetchers); error != 0) return failed("no threads", error);
  base_ = event_base_new();
  stop_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (base_ == nullptr || !stop_fd_.valid()) return failed("no events", errno);
  const auto only_wake = [](int /*fd*/, short /*what*/, void* /*self*/) {};
  for (const int fd : {fabric_->fd(), workers_.fd(), fetchers_.fd(), stop_fd_.get()}) {
    events_.push_back(event_new(base_, fd, EV_READ | EV_PERSIST, only_wake, nullptr));
    event_add(events_.back(), nullptr);
  }
  timer_ = event_new(base_, -1, 0, only_wake, nullptr);
  events_.push_back(timer_);

  side_.emplace(base_, static_cast<SideChannel::Owner&>(*this));
  auto at = side_->listen(options_.listen);
  if (!at) return fail(at.error());
  // The fabric's port is told in the handshake, so any will do; the same number is easier on
  // people.
  auto fabric_at = fabric_->listen({options_.listen.host, at->port});
  if (!fabric_at) fabric_at = fabric_->listen({options_.listen.host, 0});
  if (!fabric_at) return fail(fabric_at.error());
  options_.sessions.fabric_port = fabric_at->port;
  options_.sessions.fabrics.clear();
  for (const fabric::Offer& offer : fabric_->offers()) {
    options_.sessions.fabrics.push_back({offer.kind, offer.port});
  }
  sessions_ = std::make_unique<session::Server>(options_.sessions, random_);
  if (const auto done = memory_.refresh(*fabric_); !done) return fail(done.error());
  room_ = TransferRoom(store_.space().capacity * store::kChunkBytes);
  return at;
}

void Server::run() {
  while (!finished()) {
    if (work()) {
      worked_ = now_;
    } else if (now_ - worked_ < options_.busy_poll) {
      std::this_thread::yield();  // a client may need this core
    }
    if (now_ - worked_ >= options_.busy_poll) sleep();
  }
}

// Everything that has happened, once.
bool Server::work() {
  now_ = read_clock();
  size_t done = fabric_->poll(*this);
  done += workers_.collect() + fetchers_.collect();
  serve_waiting();
  carry_out_actions();
  if (now_ >= side_at_) {
    event_base_loop(base_, EVLOOP_NONBLOCK | EVLOOP_ONCE);
    side_at_ = now_ + kSideChannelEvery;
  }
  if (now_ >= sessions_->next_time()) sessions_->on_time(now_);
  if (now_ >= stalls_at_) look_for_stalls();
  if (stop_.load(std::memory_order_relaxed)) on_stop();
  carry_out_actions();
  fabric_->flush();
  return done > 0;
}

void Server::sleep() {
  fabric_->arm();
  if (fabric_->poll(*this) + workers_.collect() + fetchers_.collect() > 0 || stop_.load()) {
    worked_ = now_;
    return;
  }
  const Time until = std::min({sessions_->next_time(), stalls_at_, stop_at_, now_ + kLongestSleep});
  const Duration span = std::max<Duration>(until - now_, 0);
  const timeval timeout{.tv_sec = span / kSecond, .tv_usec = span % kSecond / kMicrosecond + 1};
  event_add(timer_, &timeout);
  event_base_loop(base_, EVLOOP_ONCE);
  event_del(timer_);
  fabric_->woken();
}

void Server::stop() {
  stop_.store(true);
  const uint64_t one = 1;
  static_cast<void>(!write(stop_fd_.get(), &one, sizeof one));
}

// First no new requests, until those that are there are answered; then no sessions.
void Server::on_stop() {
  uint64_t count = 0;
  static_cast<void>(!read(stop_fd_.get(), &count, sizeof count));
  stop_.store(false);
  if (stopping_ != Stopping::kNo) return;
  stopping_ = Stopping::kDraining;
  worked_ = now_;
  stop_at_ = now_ + options_.drain;
  side_->stop_listening();
}

bool Server::finished() {
  if (stopping_ == Stopping::kDraining && (calls_.busy() == 0 || now_ >= stop_at_)) {
    stopping_ = Stopping::kEnding;
    stop_at_ = now_ + options_.drain;
    sessions_->shut_down(now_);
    carry_out_actions();
  }
  if (stopping_ != Stopping::kEnding) return false;
  const bool all = sessions_->idle() && connections_.empty() && side_->open() == 0;
  return (all && calls_.busy() == 0) || now_ >= stop_at_;
}

// --- what happens on the side channel

void Server::on_side_connection(session::ConnectionId connection) {
  now_ = read_clock();
  sessions_->on_connection(connection, now_);
  carry_out_actions();
}
void Server::on_side_bytes(session::ConnectionId connection, std::span<const uint8_t> bytes) {
  now_ = read_clock();
  sessions_->on_bytes(connection, bytes, now_);
  carry_out_actions();
}
void Server::on_side_closed(session::ConnectionId connection) {
  now_ = read_clock();
  sessions_->on_connection_closed(connection, now_);
}

// --- sessions

void Server::carry_out_actions() {
  for (auto actions = sessions_->take_actions(); !actions.empty();
       actions = sessions_->take_actions()) {
    for (auto& action : actions) std::visit([this](auto& a) { carry_out(a); }, action);
  }
}

void Server::carry_out(session::SendFrame& action) { side_->send(action.connection, action.bytes); }
void Server::carry_out(session::CloseConnection& action) { side_->close(action.connection); }
void Server::carry_out(session::SendMessage& action) {
  send(action.queue_pair, std::move(action.bytes));
}
void Server::carry_out(session::CloseQueuePair& action) { fabric_->end(action.queue_pair); }
void Server::carry_out(session::SessionBegun& action) {
  const auto found = connections_.find(action.queue_pair);
  if (found != connections_.end()) found->second.session = action.session;
}
void Server::carry_out(session::SessionEnded& /*action*/) {}

void Server::carry_out(session::DoEndStep& action) {
  using session::EndStep;
  switch (action.step) {
    case EndStep::kQueuePair:
      abandon_waiting(action.queue_pair);
      if (action.queue_pair != 0) fabric_->end(action.queue_pair);
      break;
    case EndStep::kDrain: {
      const auto found = connections_.find(action.queue_pair);
      if (found == connections_.end()) break;
      found->second.draining = true;  // on_ended() confirms
      return;
    }
    case EndStep::kKeys:    // there are none: no client has one
    case EndStep::kWrites:  // on_done() was told of each, and abandoned it
      break;
    case EndStep::kRanges: store_.ranges().drop(action.session); break;
  }
  sessions_->confirm(action.session, action.step, now_);
}

// Clients that take no messages, or whose memory does not answer.
void Server::look_for_stalls() {
  stalls_at_ = now_ + kSecond;
  for (auto& [id, connection] : connections_) {
    const bool mute = !connection.unsent.empty() && now_ - connection.progress >= options_.stall;
    const bool stuck = connection.held > 0 && now_ - connection.moved >= options_.transfer_stall;
    if (!mute && !stuck) continue;
    counters_.add(Counter::kStalled);
    sessions_->on_queue_pair_failed(id, now_);
    fabric_->end(id);
  }
}

}  // namespace verbena::server
