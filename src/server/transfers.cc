// SPDX-License-Identifier: Apache-2.0
// Requests whose data moves by RDMA: they wait until there is room for what they hold in the store,
// each connection's in their order, and connections in turn.
#include <array>

#include "base/check.h"
#include "server/server.h"

namespace verbena::server {

// What a request will hold of the store; 0: nothing for longer than it is executed.
uint64_t Server::bytes_to_hold(const protocol::Request& request) {
  const auto* const io = std::get_if<protocol::IoRequest>(&request);
  return io == nullptr || io->segments.empty() ? 0 : io->length;
}

bool Server::take_room(Call& call, Connection& connection) {
  const uint64_t bytes = bytes_to_hold(call.request);
  if (bytes == 0) return true;
  if (!room_.has(connection.held, bytes)) return false;
  if (connection.held == 0) connection.moved = now_;
  room_.take(bytes);
  connection.held += bytes;
  call.held = bytes;
  return true;
}

void Server::wait_for_room(Call& call, Connection& connection) {
  counters_.add(Counter::kWaited);
  if (connection.waiting.empty()) waiting_.push_back(call.connection);
  connection.waiting.push_back(call.number);
}

// The call is over.
void Server::give(Call& call) {
  if (const uint64_t held = std::exchange(call.held, 0); held > 0) {
    room_.give(held);
    const auto found = connections_.find(call.connection);
    if (found != connections_.end()) {
      found->second.held -= held;
      found->second.moved = now_;
    }
    room_given_ = true;
  }
  calls_.give(call);
}

// Those who wait, in turn, as far as there is room. Whoever still waits then is tried again when
// something is given back.
void Server::serve_waiting() {
  if (!std::exchange(room_given_, false)) return;
  for (size_t left = waiting_.size(); left > 0; --left) {
    const fabric::ConnectionId id = waiting_.front();
    waiting_.pop_front();
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second.waiting.empty()) continue;
    Connection& connection = found->second;
    Call& call = calls_[connection.waiting.front()];
    if (!take_room(call, connection)) {
      waiting_.push_back(id);
      continue;
    }
    connection.waiting.pop_front();
    if (!connection.waiting.empty()) {
      waiting_.push_back(id);
      ++left;  // it may have room for more
    }
    start(call, call.message);
  }
}

// Of a session that ends: they have not begun.
void Server::abandon_waiting(fabric::ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  for (const uint32_t number : std::exchange(found->second.waiting, {})) {
    Call& call = calls_[number];
    sessions_->abandon(call.session, call.request, now_);
    give(call);
  }
}

void Server::transfer(Call& call, bool receive) {
  if (const auto done = memory_.refresh(*fabric_); !done) {
    call.fail(protocol::Status::kNoMemory, done.error());
    return answer(call);
  }
  const auto& request = call.as<protocol::IoRequest>();
  std::array<fabric::Remote, protocol::kMaxSegments> remotes;
  size_t count = 0;
  // Of a read, there may be more memory than data.
  uint64_t left = receive ? request.length : call.read.length();
  for (const protocol::Segment& segment : request.segments.all()) {
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(segment.length, left));
    if (length == 0) break;
    remotes[count++] = {segment.address, segment.rkey, length};
    left -= length;
  }
  const auto theirs = std::span(remotes).first(count);
  if (receive) {
    fabric_->read(call.connection, theirs, memory_.list(call.write.pieces(), true), call.number);
  } else {
    fabric_->write(call.connection, memory_.list(call.read.pieces(), false), theirs, call.number);
  }
}

void Server::on_done(fabric::ConnectionId id, fabric::OperationId operation, bool good) {
  Call& call = calls_[operation];
  if (!good) {
    // The connection is broken: the session ends, and the request has no effect.
    sessions_->on_queue_pair_failed(id, now_);
    sessions_->abandon(call.session, call.request, now_);
    give(call);
    return carry_out_actions();
  }
  if (!may_run_here(*call.hook)) return run_elsewhere(call, true);
  call.room = room_for(call);
  go_on(call, call.hook->run_moved(call, store_), true);
}

}  // namespace verbena::server
