// SPDX-License-Identifier: Apache-2.0
// How sessions end: in the order that docs/protocol.md gives, each step when the one before is
// confirmed. And time.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "session/server.h"

namespace verbena::session {

using protocol::EndReason;

Server::Peer* Server::find_session(SessionId session) {
  const auto it = by_session_.find(session);
  return it == by_session_.end() ? nullptr : it->second;
}

void Server::end(SessionId session, EndReason reason, Time now) {
  if (Peer* peer = find_session(session)) end_peer(*peer, reason, {}, now);
}

void Server::on_queue_pair_failed(QueuePairId queue_pair, Time now) {
  const auto it = by_queue_pair_.find(queue_pair);
  if (it != by_queue_pair_.end()) return end_peer(*it->second, EndReason::kFabric, {}, now);
  const size_t before = unbound_.size();
  drop_unbound(queue_pair);
  if (unbound_.size() != before) actions_.emplace_back(CloseQueuePair{queue_pair});
}

void Server::end_peer(Peer& peer, EndReason reason, std::string_view detail, Time now) {
  if (peer.state == State::kEnding) return;
  if (peer.state != State::kUnbound && peer.state != State::kActive) {
    return refuse(peer, reason, detail);
  }
  send(peer, protocol::Goodbye{.reason = reason,
                               .detail = detail.empty() ? protocol::text_of(reason) : detail});
  if (peer.open) actions_.emplace_back(CloseConnection{peer.connection});
  peer.open = false;
  peer.reason = reason;
  timers_.set(peer, kNever);
  const bool bound = peer.state == State::kActive;
  if (!bound) unbound_sessions_.erase(peer.place);
  peer.state = State::kEnding;
  if (!bound) return gone(peer, now);
  peer.step = EndStep::kQueuePair;
  actions_.emplace_back(DoEndStep{peer.session, peer.queue_pair, peer.step});
}

void Server::confirm(SessionId session, EndStep step, Time now) {
  Peer* peer = find_session(session);
  VERBENA_CHECK(peer != nullptr && peer->state == State::kEnding && peer->step == step);
  if (step == EndStep::kWrites) {
    peer->step_confirmed = true;
    return try_leave_writes(*peer, now);
  }
  next_step(*peer, now);
}

// Requests that are executing finish, and their results are remembered, before anything else of
// this client can begin.
void Server::try_leave_writes(Peer& peer, Time now) {
  const bool there = peer.state == State::kEnding && peer.step == EndStep::kWrites;
  if (there && peer.step_confirmed && peer.in_flight == 0) next_step(peer, now);
}

void Server::next_step(Peer& peer, Time now) {
  if (peer.step == EndStep::kRanges) return gone(peer, now);
  peer.step = static_cast<EndStep>(static_cast<uint8_t>(peer.step) + 1);
  actions_.emplace_back(DoEndStep{peer.session, peer.queue_pair, peer.step});
}

void Server::gone(Peer& peer, Time now) {
  const auto client = clients_.find(peer.hello.client);
  VERBENA_CHECK(client != clients_.end() && client->second.session == peer.session);
  ClientRecord& record = client->second;
  record.session = 0;
  leave(client->first, record, now);
  const ConnectionId waiting = std::exchange(record.waiting, 0);
  // A client that says it is done comes back as another instance.
  const bool done = peer.reason == EndReason::kDone && waiting == 0 && peer.said_goodbye;
  actions_.emplace_back(SessionEnded{peer.session, peer.reason});
  by_session_.erase(peer.session);
  by_queue_pair_.erase(peer.queue_pair);
  timers_.remove(peer);
  peers_.erase(peer.connection);
  if (done) {
    stay(record);
    clients_.erase(client);
  }
  if (waiting != 0) {
    welcome(*peers_.at(waiting), now);
  }
}

void Server::shut_down(Time now) {
  shutting_down_ = true;
  for (const Unbound& u : unbound_) actions_.emplace_back(CloseQueuePair{u.queue_pair});
  unbound_.clear();
  std::vector<ConnectionId> all;
  for (const auto& [connection, peer] : peers_) all.push_back(connection);
  std::ranges::sort(all);  // so that the same calls give the same actions
  for (const ConnectionId connection : all) {
    const auto it = peers_.find(connection);
    if (it != peers_.end()) end_peer(*it->second, EndReason::kShutdown, {}, now);
  }
}

// The client has no session: from now on it may be forgotten.
void Server::leave(const protocol::InstanceId& client, ClientRecord& record, Time now) {
  record.forget_at = now + options_.client_memory;
  record.place = away_.insert(away_.end(), client);
}

void Server::stay(ClientRecord& record) {
  away_.erase(record.place);
  record.forget_at = kNever;
}

void Server::forget_oldest_client() {
  counters_.add(ServerCounter::kForgottenClients);
  clients_.erase(away_.front());
  away_.pop_front();
}

void Server::on_time(Time now) {
  while (Peer* peer = timers_.pop_due(now)) {
    const bool waiting = peer->state == State::kWaiting;
    end_peer(*peer, waiting ? EndReason::kBusy : EndReason::kTimeout, {}, now);
  }
  while (!unbound_.empty() && unbound_.front().deadline <= now) {
    actions_.emplace_back(CloseQueuePair{unbound_.front().queue_pair});
    unbound_.pop_front();
  }
  while (!away_.empty() && clients_.at(away_.front()).forget_at <= now) forget_oldest_client();
}

Time Server::next_time() const {
  Time next = timers_.next();
  if (!unbound_.empty()) next = std::min(next, unbound_.front().deadline);
  if (!away_.empty()) next = std::min(next, clients_.at(away_.front()).forget_at);
  return next;
}

}  // namespace verbena::session
