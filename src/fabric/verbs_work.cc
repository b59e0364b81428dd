// SPDX-License-Identifier: Apache-2.0
// What goes over connections of the verbs fabric: its memory, messages, and all completions.
#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "base/check.h"
#include "fabric/verbs_fabric_impl.h"

namespace verbena::fabric {
namespace {

constexpr size_t kMessagesAtOnce = 16;

}  // namespace

// --- memory

Result<Key> VerbsFabric::add_memory(uint8_t* memory, size_t bytes, bool remote) {
  const int access =
      IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0);
  // Which takes its time, for all of it is made present.
  ibv_mr* const key = library_.reg_mr(domain_, memory, bytes, access);
  if (key == nullptr) {
    return fail(describe_error(
        fmt::format("cannot register {} bytes of memory (see ulimit -l)", bytes), errno));
  }
  const MutexLock lock(memory_mutex_);
  VERBENA_CHECK(remote || memory_.emplace(memory, key).second);
  keys_.emplace(next_key_, key);
  return Key{next_key_++, remote ? key->rkey : 0, reinterpret_cast<uint64_t>(memory)};
}

void VerbsFabric::remove_memory(const Key& key) {
  ibv_mr* region = nullptr;
  {
    const MutexLock lock(memory_mutex_);
    const auto found = keys_.find(key.number);
    VERBENA_CHECK(found != keys_.end());
    region = found->second;
    keys_.erase(found);
    if (key.remote == 0) memory_.erase(static_cast<const uint8_t*>(region->addr));
  }
  library_.dereg_mr(region);
}

uint32_t VerbsFabric::key_of(const Local& local) const {
  const MutexLock lock(memory_mutex_);
  const auto behind = memory_.upper_bound(local.memory);
  VERBENA_CHECK(behind != memory_.begin());
  const ibv_mr& key = *std::prev(behind)->second;
  const auto begin = static_cast<size_t>(local.memory - static_cast<const uint8_t*>(key.addr));
  const size_t used = size_t{local.stride} * (local.count - 1) + local.bytes;
  VERBENA_CHECK(begin <= key.length && used <= key.length - begin);
  return key.lkey;
}

// --- waiting for others

// A connection has as many buffers as are free at most: however many connections have peers that
// do not take their messages, the next one finds some.
bool VerbsFabric::has_room_for(const Connection& connection) const {
  return connection.messages < sent_.free() && may_post();
}

void VerbsFabric::wait_for_others(Connection& connection) {
  if (std::exchange(connection.waiting, true)) return;
  waiting_.push_back(connection.id);
}

// Each once, unless there is nothing to be had any more: then completions are on their way, after
// which it is called again.
void VerbsFabric::serve_waiting(Handler& handler) {
  for (size_t left = waiting_.size(); left > 0 && may_post(); --left) {
    Connection* const connection = find(waiting_.front());
    waiting_.pop_front();
    if (connection == nullptr) continue;
    connection->waiting = false;
    if (connection->state != Connection::State::kConnected) continue;
    post_backlog(*connection);
    offer_room(*connection, handler);
  }
}

void VerbsFabric::offer_room(Connection& connection, Handler& handler) {
  if (!connection.wants_room) return;
  if (!has_room_for(connection)) return wait_for_others(connection);
  connection.wants_room = false;
  handler.on_sendable(connection.id);
}

// --- posting

bool VerbsFabric::post(Connection& connection, ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.qp, &request, &bad) != 0) return false;
  ++connection.outstanding;
  ++outstanding_;
  return true;
}

void VerbsFabric::post_receive(uint32_t index) {
  const auto buffer = received_.buffer(index);
  ibv_sge part{.addr = reinterpret_cast<uint64_t>(buffer.data()),
               .length = static_cast<uint32_t>(buffer.size()),
               .lkey = received_key_->lkey};
  ibv_recv_wr request{};
  request.wr_id = work_id(Work::kReceive, index);
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  VERBENA_CHECK(ibv_post_srq_recv(receives_, &request, &bad) == 0);
}

std::span<uint8_t> VerbsFabric::message_room(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state != Connection::State::kConnected) return {};
  if (room_ && room_->first == id) return sent_.buffer(room_->second);
  if (room_) {
    sent_.give(room_->second);
    room_.reset();
  }
  // One request is left for kLast.
  const bool full = connection->messages >= options_.sends_per_connection ||
                    connection->outstanding + 1 >= options_.work_requests;
  if (full || !has_room_for(*connection)) {
    connection->wants_room = true;
    if (!full) wait_for_others(*connection);
    return {};
  }
  room_ = {id, *sent_.take()};
  return sent_.buffer(room_->second);
}

void VerbsFabric::send(ConnectionId id, size_t bytes) {
  VERBENA_CHECK(room_ && room_->first == id && bytes <= options_.message_bytes);
  const uint32_t index = std::exchange(room_, std::nullopt)->second;
  Connection* const connection = find(id);
  VERBENA_CHECK(connection != nullptr);  // end() takes the room away
  if (connection->unposted.empty()) to_post_.push_back(id);
  connection->unposted.push_back({index, static_cast<uint32_t>(bytes)});
  ++connection->messages;
  ++connection->outstanding;
  ++outstanding_;
  if (connection->unposted.size() == kMessagesAtOnce) post_messages(*connection);
}

void VerbsFabric::flush() {
  for (const ConnectionId id : to_post_) {
    Connection* const connection = find(id);
    if (connection != nullptr) post_messages(*connection);
  }
  to_post_.clear();
}

// As one list: a device does for all of them what it would do for each.
void VerbsFabric::post_messages(Connection& connection) {
  const size_t count = connection.unposted.size();
  if (count == 0) return;
  if (connection.state != Connection::State::kConnected) return drop_messages(connection, 0);
  std::array<ibv_sge, kMessagesAtOnce> parts;
  std::array<ibv_send_wr, kMessagesAtOnce> requests{};
  for (size_t i = 0; i < count; ++i) {
    const auto [buffer, bytes] = connection.unposted[i];
    parts[i] = {.addr = reinterpret_cast<uint64_t>(sent_.buffer(buffer).data()),
                .length = bytes,
                .lkey = sent_key_->lkey};
    requests[i].wr_id = work_id(Work::kMessage, buffer);
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
    requests[i].sg_list = &parts[i];
    requests[i].num_sge = 1;
    requests[i].opcode = IBV_WR_SEND;
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.qp, requests.data(), &bad) == 0) {
    connection.unposted.clear();
    return;
  }
  drop_messages(connection, static_cast<size_t>(bad - requests.data()));
  fail_connection(connection, "a message cannot be sent");
}

// From the first of these on; those before it are posted.
void VerbsFabric::drop_messages(Connection& connection, size_t first) {
  const auto dropped = static_cast<uint32_t>(connection.unposted.size() - first);
  for (size_t i = first; i < connection.unposted.size(); ++i) {
    sent_.give(connection.unposted[i].buffer);
  }
  connection.unposted.clear();
  connection.messages -= dropped;
  connection.outstanding -= dropped;
  outstanding_ -= dropped;
}

// --- completions

void VerbsFabric::on_completion(const ibv_wc& wc, Handler& handler) {
  const auto found = by_number_.find(wc.qp_num);
  Connection* const connection = found == by_number_.end() ? nullptr : found->second;
  if (work_of(wc.wr_id) == Work::kReceive) return on_received(connection, wc, handler);
  VERBENA_CHECK(connection != nullptr);  // it lives until all it posted has completed
  on_work_done(*connection, wc, handler);
}

void VerbsFabric::on_received(Connection* connection, const ibv_wc& wc, Handler& handler) {
  const auto index = static_cast<uint32_t>(what_of(wc.wr_id));
  if (connection != nullptr && wc.status != IBV_WC_SUCCESS) {
    // A message that is too long, for one.
    fail_connection(*connection,
                    fmt::format("cannot receive: {}", library_.wc_status_str(wc.status)));
  } else if (connection != nullptr) {
    // A message may be quicker than the event that says that the connection is there.
    on_established(*connection, handler);
    if (connection->state != Connection::State::kConnected) {
      // Nobody is interested.
    } else if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      handler.on_immediate(connection->id, ntohl(wc.imm_data));
    } else {
      handler.on_message(connection->id, received_.buffer(index).first(wc.byte_len));
    }
  }
  post_receive(index);
}

void VerbsFabric::on_work_done(Connection& connection, const ibv_wc& wc, Handler& handler) {
  const bool good = wc.status == IBV_WC_SUCCESS;
  --connection.outstanding;
  --outstanding_;
  if (!good) fail_connection(connection, library_.wc_status_str(wc.status));
  switch (work_of(wc.wr_id)) {
    case Work::kMessage:
      sent_.give(static_cast<uint32_t>(what_of(wc.wr_id)));
      --connection.messages;
      break;
    case Work::kPart:
      if (!good) connection.posted[what_of(wc.wr_id)].good = false;
      break;
    case Work::kOperation: {
      auto found = connection.posted.extract(what_of(wc.wr_id));
      Connection::Posted& posted = found.mapped();
      posted.good = posted.good && good;
      const bool done = finish(posted);
      handler.on_done(connection.id, posted.operation, done);
      break;
    }
    default: break;
  }
  // Connections are destroyed by deliver_notices() alone: it is still there.
  if (connection.state == Connection::State::kConnected) {
    post_backlog(connection);
    offer_room(connection, handler);
  }
  end_if_drained(connection);
}

}  // namespace verbena::fabric
