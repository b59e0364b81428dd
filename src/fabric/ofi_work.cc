// SPDX-License-Identifier: Apache-2.0
// What goes over connections of the fabric over libfabric: its memory, messages, and completions.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/endian.h"
#include "fabric/ofi_fabric_impl.h"
#include "fabric/part_crcs.h"

namespace verbena::fabric {

// --- memory

Result<UniqueFid<fid_mr>> OfiFabric::register_memory(void* memory, size_t bytes, uint64_t access,
                                                     uint64_t key) const {
  fid_mr* region = nullptr;
  const int error =
      fi_mr_reg(domain_->domain(), memory, bytes, access, 0, key, 0, &region, nullptr);
  if (error != 0) {
    return fail(domain_->describe(
        fmt::format("cannot register {} bytes of memory (see ulimit -l)", bytes), error));
  }
  return UniqueFid<fid_mr>(region);
}

Result<Key> OfiFabric::add_memory(uint8_t* memory, size_t bytes, bool remote) {
  constexpr uint64_t kLocal = FI_READ | FI_WRITE | FI_SEND | FI_RECV;
  constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
  const bool chooses_key = !domain_->needs(FI_MR_PROV_KEY);
  Memory added{memory, bytes};
  if (remote || domain_->needs(FI_MR_LOCAL)) {
    uint64_t wanted = 0;
    if (chooses_key) {
      const MutexLock lock(memory_mutex_);
      // Which nobody guesses easily. One that is in use is refused, which is very rare.
      wanted = 1 + key_random_.below(UINT32_MAX);
    }
    // Which may take its time.
    auto region = register_memory(memory, bytes, remote ? kLocal | kRemote : kLocal, wanted);
    if (!region) return fail(region.error());
    added.region = std::move(*region);
  }
  const uint64_t key = added.region == nullptr ? 0 : fi_mr_key(added.region.get());
  if (remote && (key == 0 || key > UINT32_MAX)) {
    return fail(
        fmt::format("libfabric's provider {} has memory keys that are too long for the "
                    "protocol",
                    domain_->provider()));
  }
  const MutexLock lock(memory_mutex_);
  const uint64_t number = next_key_++;
  VERBENA_CHECK(remote || memory_.emplace(memory, number).second);
  keys_.emplace(number, std::move(added));
  const uint64_t address = domain_->needs(FI_MR_VIRT_ADDR) ? reinterpret_cast<uint64_t>(memory) : 0;
  return Key{number, remote ? static_cast<uint32_t>(key) : 0, address};
}

void OfiFabric::remove_memory(const Key& key) {
  UniqueFid<fid_mr> region;
  const MutexLock lock(memory_mutex_);
  const auto found = keys_.find(key.number);
  VERBENA_CHECK(found != keys_.end());
  if (key.remote == 0) memory_.erase(found->second.begin);
  region = std::move(found->second.region);
  keys_.erase(found);
}

// The number of the memory that it lies in.
uint32_t OfiFabric::key_of(const Local& local) const {
  const MutexLock lock(memory_mutex_);
  const auto behind = memory_.upper_bound(local.memory);
  VERBENA_CHECK(behind != memory_.begin());
  const uint64_t number = std::prev(behind)->second;
  const Memory& memory = keys_.find(number)->second;
  const auto begin = static_cast<size_t>(local.memory - memory.begin);
  const size_t used = size_t{local.stride} * (local.count - 1) + local.bytes;
  VERBENA_CHECK(begin <= memory.bytes && used <= memory.bytes - begin);
  return static_cast<uint32_t>(number);
}

void* OfiFabric::descriptor_of(uint32_t key) const {
  if (!domain_->needs(FI_MR_LOCAL)) return nullptr;
  const MutexLock lock(memory_mutex_);
  return fi_mr_desc(keys_.find(key)->second.region.get());
}

// --- messages

OfiWork& OfiFabric::take_work(Connection& connection, OfiWork::Kind kind) {
  if (connection.idle_works.empty()) {
    connection.idle_works.push_back(&connection.works.emplace_back());
  }
  OfiWork& work = *connection.idle_works.back();
  connection.idle_works.pop_back();
  work.kind = kind;
  work.busy = true;
  return work;
}

void OfiFabric::give_work(Connection& connection, OfiWork& work) {
  work.busy = false;
  connection.idle_works.push_back(&work);
}

void OfiFabric::post_receive(Connection& connection, uint32_t index) {
  OfiWork& work = take_work(connection, OfiWork::Kind::kReceive);
  work.buffer = index;
  const auto buffer = connection.received->buffer(index);
  void* const descriptor =
      connection.received_key == nullptr ? nullptr : fi_mr_desc(connection.received_key.get());
  const ssize_t done = fi_recv(connection.endpoint->ep(), buffer.data(), buffer.size(), descriptor,
                               FI_ADDR_UNSPEC, &work.context);
  if (done == 0) return;
  give_work(connection, work);
  fail_connection(connection, domain_->describe("cannot receive", done));
}

std::span<uint8_t> OfiFabric::message_room(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state != Connection::State::kConnected) return {};
  const auto body = [this](uint32_t index) { return sent_.buffer(index).subspan(kOfiHeaderBytes); };
  if (room_ && room_->first == id) return body(room_->second);
  if (room_) {
    sent_.give(room_->second);
    room_.reset();
  }
  const bool full = connection->messages >= options_.sends_per_connection ||
                    connection->outstanding + 1 >= options_.work_requests;
  if (full || !has_room_for(*connection)) {
    connection->wants_room = true;
    if (!full && !std::exchange(connection->waiting, true)) waiting_.push_back(id);
    return {};
  }
  room_ = {id, *sent_.take()};
  return body(room_->second);
}

void OfiFabric::send(ConnectionId id, size_t bytes) {
  VERBENA_CHECK(room_ && room_->first == id && bytes <= options_.message_bytes);
  const uint32_t index = std::exchange(room_, std::nullopt)->second;
  Connection* const connection = find(id);
  VERBENA_CHECK(connection != nullptr);  // end() takes the room away
  enqueue(*connection, index, OfiMessage::kData, bytes, 0);
}

void OfiFabric::enqueue(Connection& connection, uint32_t index, OfiMessage kind, size_t bytes,
                        uint64_t immediate_of) {
  const auto header = sent_.buffer(index).first(kOfiHeaderBytes);
  std::ranges::fill(header, 0);
  store_be64(header.data(), connection.peer_nonce);
  header[8] = static_cast<uint8_t>(kind);
  if (connection.unposted.empty()) to_post_.push_back(connection.id);
  connection.unposted.push_back(
      {index, static_cast<uint32_t>(kOfiHeaderBytes + bytes), immediate_of});
  ++connection.messages;
  if (connection.outstanding++ == 0) connection.progress = now_;
}

void OfiFabric::send_hello(Connection& connection) {
  const auto index = sent_.take();
  connection.owes_hello = !index;
  if (index) enqueue(connection, *index, OfiMessage::kHello, 0, 0);
}

void OfiFabric::flush() {
  for (const ConnectionId id : to_post_) {
    Connection* const connection = find(id);
    if (connection != nullptr) post_messages(*connection);
  }
  to_post_.clear();
  for (Connection* const connection : all_) ring(*connection);
  if (std::exchange(try_again_, false)) set_timer(kOfiTryAgain);
}

void OfiFabric::post_messages(Connection& connection) {
  if (connection.state != Connection::State::kConnected) return;
  void* const descriptor = sent_key_ == nullptr ? nullptr : fi_mr_desc(sent_key_.get());
  while (!connection.unposted.empty()) {
    const Connection::Message message = connection.unposted.front();
    store_be32(sent_.buffer(message.buffer).data() + kOfiSequenceAt, connection.sent_count);
    OfiWork& work = take_work(connection, OfiWork::Kind::kMessage);
    work.buffer = message.buffer;
    work.transfer = message.immediate_of;
    const ssize_t done =
        fi_send(connection.endpoint->ep(), sent_.buffer(message.buffer).data(), message.bytes,
                descriptor, connection.endpoint->peer(), &work.context);
    if (done != 0) {
      give_work(connection, work);
      connection.stuck = try_again_ = true;
      if (done != -FI_EAGAIN) {
        fail_connection(connection, domain_->describe("a message cannot be sent", done));
      }
      return;
    }
    connection.unposted.pop_front();
    ++connection.sent_count;
    connection.ring = true;
  }
}

// Each once; if there is nothing to be had any more, it is called again when there is.
void OfiFabric::serve_waiting(Handler& handler) {
  for (size_t left = waiting_.size(); left > 0 && sent_.free() > 0; --left) {
    Connection* const connection = find(waiting_.front());
    waiting_.pop_front();
    if (connection == nullptr) continue;
    connection->waiting = false;
    if (connection->state == Connection::State::kConnected) offer_room(*connection, handler);
  }
}

void OfiFabric::offer_room(Connection& connection, Handler& handler) {
  if (!connection.wants_room || connection.messages >= options_.sends_per_connection) return;
  if (!has_room_for(connection)) {
    if (!std::exchange(connection.waiting, true)) waiting_.push_back(connection.id);
    return;
  }
  connection.wants_room = false;
  handler.on_sendable(connection.id);
}

// --- completions

void OfiFabric::on_completion(Connection& connection, const fi_cq_msg_entry& entry,
                              Handler& handler) {
  OfiWork& work = work_of_context(entry.op_context);
  switch (work.kind) {
    case OfiWork::Kind::kReceive: return on_received(connection, work, entry.len, handler);
    case OfiWork::Kind::kMessage: {
      const uint64_t transfer = work.transfer;
      on_sent(connection, work);
      if (transfer != 0) on_moved(connection, transfer, true, handler);
      return;
    }
    case OfiWork::Kind::kOperation: {
      const uint64_t transfer = work.transfer;
      give_work(connection, work);
      --connection.outstanding;
      connection.progress = now_;
      return on_moved(connection, transfer, true, handler);
    }
  }
}

void OfiFabric::on_error(Connection& connection, const fi_cq_err_entry& entry, Handler& handler) {
  fail_connection(connection, domain_->describe("the connection failed", -entry.err));
  // Of what it is not always said.
  if (entry.op_context == nullptr) return;
  OfiWork& work = work_of_context(entry.op_context);
  const uint64_t transfer = work.transfer;
  switch (work.kind) {
    case OfiWork::Kind::kReceive: return give_work(connection, work);
    case OfiWork::Kind::kMessage: on_sent(connection, work); break;
    case OfiWork::Kind::kOperation:
      give_work(connection, work);
      --connection.outstanding;
      break;
  }
  if (transfer != 0) on_moved(connection, transfer, false, handler);
}

// Long messages may complete behind shorter ones that were sent later: they are told in order.
void OfiFabric::on_received(Connection& connection, OfiWork& work, size_t bytes, Handler& handler) {
  const uint32_t index = work.buffer;
  give_work(connection, work);
  const uint8_t* const header = connection.received->buffer(index).data();
  if (connection.state >= Connection::State::kFailed) return;
  // Others may be of somebody else, who has found the endpoint: it is not the peer's fault.
  if (bytes < kOfiHeaderBytes || load_be64(header) != connection.nonce) {
    return post_receive(connection, index);
  }
  // It has not said yet where it is: nothing could be answered.
  if (!connection.greeted) {
    return fail_connection(connection, "the peer sends messages before it has greeted");
  }
  const uint32_t count = load_be32(header + kOfiSequenceAt);
  // As many as there are buffers may be ahead of one that is not there yet.
  if (count - connection.received_count >= options_.receives ||
      !connection.early.emplace(count, std::pair(index, bytes)).second) {
    return fail_connection(connection, "a message of the peer is not valid");
  }
  while (!connection.early.empty()) {
    const auto next = connection.early.find(connection.received_count);
    if (next == connection.early.end()) return;
    const auto [buffer, length] = next->second;
    connection.early.erase(next);
    ++connection.received_count;
    deliver(connection, std::span<const uint8_t>(connection.received->buffer(buffer)).first(length),
            handler);
    if (connection.state >= Connection::State::kFailed) return;
    post_receive(connection, buffer);
  }
}

void OfiFabric::deliver(Connection& connection, std::span<const uint8_t> message,
                        Handler& handler) {
  connection.found = true;
  establish(connection, handler);
  if (connection.state != Connection::State::kConnected) return;
  const auto body = message.subspan(kOfiHeaderBytes);
  const auto kind = static_cast<OfiMessage>(message[8]);
  if (kind == OfiMessage::kData) {
    handler.on_message(connection.id, body);
  } else if (kind == OfiMessage::kImmediate && body.size() == sizeof(uint32_t)) {
    handler.on_immediate(connection.id, load_be32(body.data()));
  } else if (kind != OfiMessage::kHello) {
    fail_connection(connection, "a message of the peer is not valid");
  }
}

void OfiFabric::on_sent(Connection& connection, OfiWork& work) {
  connection.found = true;
  sent_.give(work.buffer);
  give_work(connection, work);
  --connection.messages;
  --connection.outstanding;
  connection.progress = now_;
}

// One request of an operation has completed.
void OfiFabric::on_moved(Connection& connection, uint64_t transfer, bool good, Handler& handler) {
  const auto found = connection.posted.find(transfer);
  if (found == connection.posted.end()) return;
  Connection::Posted& posted = found->second;
  --posted.requests;
  if (!good) posted.good = false;
  if (posted.requests > 0 || !posted.all) return;
  const auto immediate =
      std::ranges::find(connection.immediates, transfer, &Connection::Immediate::transfer);
  if (posted.good && immediate != connection.immediates.end()) {
    immediate->arrived = true;
    return send_immediates(connection);
  }
  if (posted.good) std::ranges::for_each(posted.crcs, store_crcs);
  const OperationId operation = posted.operation;
  const bool done = posted.good;
  connection.posted.erase(found);
  handler.on_done(connection.id, operation, done);
}

void OfiFabric::go_on(Connection& connection, Handler& handler) {
  connection.stuck = false;
  if (connection.state != Connection::State::kConnected) return;
  post_messages(connection);
  post_backlog(connection);
  offer_room(connection, handler);
}

}  // namespace verbena::fabric
