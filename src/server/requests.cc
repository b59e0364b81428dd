// SPDX-License-Identifier: Apache-2.0
// Requests, from the message to the response.
#include <algorithm>

#include "base/check.h"
#include "server/server.h"

namespace verbena::server {

void Server::on_connected(fabric::ConnectionId id) {
  connections_.try_emplace(id);
  sessions_->on_queue_pair(id, now_);
}

void Server::on_message(fabric::ConnectionId id, std::span<const uint8_t> message) {
  const auto admitted = sessions_->on_message(id, message, now_);
  if (!admitted) return carry_out_actions();
  const auto connection = connections_.find(id);
  VERBENA_CHECK(connection != connections_.end());
  Call& call = calls_.take();
  call.session = admitted->session;
  call.connection = id;
  call.default_object = connection->second.default_object;
  call.request = admitted->request;
  call.room = {};
  call.cache = options_.cache;
  call.needs.reset();
  call.tries = 0;
  call.hook = hooks_[call.request.index()].get();
  if (stopping_ != Stopping::kNo) {
    call.fail(protocol::Status::kBusy, "the server is shutting down");
    return answer(call);
  }
  // Not before those that came earlier.
  Connection& its = connection->second;
  if (bytes_to_hold(call.request) > 0 && (!its.waiting.empty() || !take_room(call, its))) {
    call.keep(message);
    return wait_for_room(call, its);
  }
  start(call, message);
}

void Server::start(Call& call, std::span<const uint8_t> message) {
  if (!may_run_here(*call.hook)) {
    if (call.hook->refuses(call, store_)) return answer(call);
    if (message.data() != call.message.data()) call.keep(message);
    return run_elsewhere(call, false);
  }
  call.room = room_for(call);
  const Next next = call.hook->run(call, store_);
  // It is needed for longer than the message is there.
  const bool later = next != Next::kAnswer || call.needs;
  if (later && message.data() != call.message.data()) call.keep(message);
  go_on(call, next, false);
}

bool Server::may_run_here(const Hook& hook) const {
  if (options_.cache != nullptr && hook.goes_behind()) return false;
  switch (hook.where()) {
    case Where::kLoop:   return true;
    case Where::kEither: return !store_.would_wait();
    case Where::kWorker: return false;
  }
  return false;
}

void Server::run_elsewhere(Call& call, bool moved) {
  counters_.add(Counter::kToWorkers);
  // Data that is read goes where it will be sent from; all else is encoded by answer().
  const auto* const io = std::get_if<protocol::IoRequest>(&call.request);
  call.room = {};
  if (io != nullptr && io->kind == protocol::IoKind::kRead) {
    call.reply.resize(fabric_->message_bytes());
    call.room = call.reply;
  }
  auto next = std::make_shared<Next>();
  // Who waits for what is behind keeps nobody waiting who does not.
  const bool behind = options_.cache != nullptr && call.hook->goes_behind();
  (behind ? fetchers_ : workers_)
      .run(
          [this, &call, moved, next] {
            *next = moved ? call.hook->run_moved(call, store_) : call.hook->run(call, store_);
          },
          [this, &call, next, moved] { go_on(call, *next, moved); });
}

// What is behind comes here, or something else leaves, and the request is tried again.
void Server::fetch(Call& call, bool moved) {
  constexpr int kMaxTries = 1000;
  const store::Error needs = *std::exchange(call.needs, std::nullopt);
  if (call.tries++ == kMaxTries || stopping_ == Stopping::kEnding) return answer(call);
  counters_.add(Counter::kFetched);
  auto done = std::make_shared<store::Result<void>>();
  fetchers_.run(
      [&cache = *options_.cache, needs, done] {
        *done = needs.code == store::Code::kBehind ? cache.load(needs.behind)
                                                   : cache.make_room(cache::kSegmentParts);
      },
      [this, &call, done, moved] {
        if (!*done) {
          call.fail(done->error());
          call.needs.reset();
          return answer(call);
        }
        if (moved || !may_run_here(*call.hook)) return run_elsewhere(call, moved);
        call.room = room_for(call);
        go_on(call, call.hook->run(call, store_), false);
      });
}

void Server::go_on(Call& call, Next next, bool moved) {
  if (call.needs) return fetch(call, moved);
  switch (next) {
    case Next::kAnswer:  return answer(call);
    case Next::kReceive: return transfer(call, true);
    case Next::kSend:    return transfer(call, false);
  }
}

void Server::answer(Call& call) {
  count(call);
  // Which may be another place than the one in which inline data was put.
  if (call.room.data() != call.reply.data() || call.room.empty()) call.room = room_for(call);
  const size_t bytes =
      sessions_->respond(call.session, call.request, call.response, call.room, now_);
  const auto found = connections_.find(call.connection);
  if (bytes > 0 && found != connections_.end()) {
    const auto* const stat = std::get_if<protocol::StatRequest>(&call.request);
    const auto* const entry = std::get_if<protocol::StatResponse>(&call.response);
    if (stat != nullptr && stat->make_default && entry->status == protocol::Status::kOk) {
      found->second.default_object = entry->entry.object;
    }
    if (call.room.data() == call.reply.data()) {
      send(call.connection,
           {call.reply.begin(), call.reply.begin() + static_cast<ptrdiff_t>(bytes)});
    } else {
      fabric_->send(call.connection, bytes);
    }
  }
  give(call);
  carry_out_actions();
}

void Server::count(const Call& call) {
  const auto status = protocol::status_of(call.response);
  if (status != protocol::Status::kOk) counters_.add(Counter::kFailed);
  const auto* const io = std::get_if<protocol::IoResponse>(&call.response);
  if (io == nullptr) return counters_.add(Counter::kOthers);
  const bool read = io->kind == protocol::IoKind::kRead;
  counters_.add(read ? Counter::kReads : Counter::kWrites);
  counters_.add(read ? Counter::kReadBytes : Counter::kWrittenBytes, io->length);
  if (call.cache != nullptr && status == protocol::Status::kOk) {
    call.cache->used(call.object, std::get<protocol::IoRequest>(call.request).offset, io->length);
  }
}

// --- messages

// Where the response goes: the fabric's memory, or if it has none now the call's.
std::span<uint8_t> Server::room_for(Call& call) {
  const auto found = connections_.find(call.connection);
  if (found != connections_.end() && found->second.unsent.empty()) {
    const auto room = fabric_->message_room(call.connection);
    if (!room.empty()) return room;
  }
  call.reply.resize(fabric_->message_bytes());
  return call.reply;
}

void Server::send(fabric::ConnectionId id, std::vector<uint8_t> bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.unsent.empty()) {
    const auto room = fabric_->message_room(id);
    if (!room.empty()) {
      std::ranges::copy(bytes, room.begin());
      fabric_->send(id, bytes.size());
      return;
    }
    connection.progress = now_;
  }
  // A client has so many requests under way at most, unless it does not heed the limits.
  if (connection.unsent.size() > options_.sessions.limits.window ||
      unsent_bytes_ + bytes.size() > options_.max_unsent_bytes) {
    counters_.add(Counter::kStalled);
    drop_unsent(connection);
    sessions_->on_queue_pair_failed(id, now_);
    return fabric_->end(id);
  }
  counters_.add(Counter::kUnsent);
  unsent_bytes_ += bytes.size();
  connection.unsent.push_back(std::move(bytes));
}

void Server::on_sendable(fabric::ConnectionId id) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) send_unsent(id, found->second);
}

void Server::send_unsent(fabric::ConnectionId id, Connection& connection) {
  while (!connection.unsent.empty()) {
    const auto room = fabric_->message_room(id);
    if (room.empty()) return;
    const std::vector<uint8_t> bytes = std::move(connection.unsent.front());
    connection.unsent.pop_front();
    unsent_bytes_ -= bytes.size();
    connection.progress = now_;
    std::ranges::copy(bytes, room.begin());
    fabric_->send(id, bytes.size());
  }
}

void Server::drop_unsent(Connection& connection) {
  for (const auto& bytes : connection.unsent) unsent_bytes_ -= bytes.size();
  connection.unsent.clear();
}

// --- the end of a connection

void Server::on_failed(fabric::ConnectionId id, std::string_view /*why*/) {
  sessions_->on_queue_pair_failed(id, now_);
  fabric_->end(id);
  carry_out_actions();
}

void Server::on_ended(fabric::ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  drop_unsent(found->second);
  const bool draining = found->second.draining;
  const session::SessionId session = found->second.session;
  connections_.erase(found);
  if (draining) sessions_->confirm(session, session::EndStep::kDrain, now_);
  carry_out_actions();
}

}  // namespace verbena::server
