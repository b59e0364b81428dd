// SPDX-License-Identifier: Apache-2.0
// Requests: from read(), write() and submit() to their completion.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/block_sums.h"
#include "base/check.h"
#include "session/client.h"

namespace verbena::session {

// The key was checked when the message arrived.
const protocol::Seal Completion::kSeal = protocol::Seal::with_key(0).without_checks();

namespace {

[[nodiscard]] uint64_t bytes_in(const std::vector<Buffer>& buffers) {
  return std::accumulate(buffers.begin(), buffers.end(), uint64_t{0},
                         [](uint64_t sum, const Buffer& buffer) { return sum + buffer.length; });
}

// Calls visit(memory, length) for the first `length` bytes.
template <typename Visit>
void for_pieces(const std::vector<Buffer>& buffers, uint64_t length, Visit visit) {
  for (const Buffer& buffer : buffers) {
    const uint64_t here = std::min<uint64_t>(buffer.length, length);
    if (here != 0) visit(std::span<uint8_t>(buffer.memory, here));
    length -= here;
  }
}

[[nodiscard]] uint32_t crc_in(const std::vector<Buffer>& buffers, uint64_t length) {
  uint32_t state = kCrc32Start;
  for_pieces(buffers, length,
             [&](std::span<uint8_t> piece) { state = crc32_msb_update(state, piece); });
  return crc32_finish(state);
}

// In one pass with copying them: the CRC is of what lies in the buffers afterwards.
[[nodiscard]] uint32_t copy_in(const std::vector<Buffer>& buffers,
                               std::span<const uint8_t> payload) {
  uint32_t state = kCrc32Start;
  for_pieces(buffers, payload.size(), [&](std::span<uint8_t> piece) {
    state = crc32_msb_copy(state, piece.data(), payload.first(piece.size()));
    payload = payload.subspan(piece.size());
  });
  return crc32_finish(state);
}

// Three names at most, or a PING's data.
[[nodiscard]] size_t room_for(const protocol::Request& request) {
  const auto* ping = std::get_if<protocol::Ping>(&request);
  return 4 * protocol::kMaxNameBytes + (ping == nullptr ? 0 : ping->data.size());
}

}  // namespace

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:      return "done";
    case Outcome::kUnknown:   return "unknown";
    case Outcome::kTimedOut:  return "timed-out";
    case Outcome::kCancelled: return "cancelled";
    case Outcome::kRefused:   return "refused";
    case Outcome::kCorrupted: return "corrupted";
    case Outcome::kInvalid:   return "invalid";
  }
  return "unknown";
}

Client::Pending& Client::add(protocol::MessageType type, protocol::Effect effect, Time deadline) {
  VERBENA_CHECK(deadline != kNever);
  Pending& pending = pending_[next_id_];
  pending.id = next_id_++;
  pending.type = type;
  pending.effect = effect;
  pending.deadline = deadline;
  deadlines_.emplace(deadline, pending.id);
  return pending;
}

// A request that was just added, where no session will ever come.
void Client::end_if_over(RequestId id) {
  if (state_ == State::kRefused) give_up(pending_.find(id), Outcome::kRefused);
  if (closing_ && pending_.contains(id)) give_up(pending_.find(id), Outcome::kCancelled);
}

RequestId Client::add_io(protocol::IoRequest io, std::vector<Buffer> buffers, Time deadline) {
  const bool write = io.kind == protocol::IoKind::kWrite;
  Pending& pending = add(write ? protocol::IoRequest::kWriteType : protocol::IoRequest::kReadType,
                         io.effect(), deadline);
  pending.name = io.object.name;
  io.object.name = pending.name;
  io.id = pending.id;
  io.length = bytes_in(buffers);
  pending.io = io;
  pending.buffers = std::move(buffers);
  return pending.id;
}

RequestId Client::read(const protocol::ObjectRef& object, uint64_t offset,
                       std::vector<Buffer> buffers, const IoOptions& options, Time deadline,
                       Time /*now*/) {
  const RequestId id = add_io({.kind = protocol::IoKind::kRead, .object = object, .offset = offset},
                              std::move(buffers), deadline);
  pending_.find(id)->second.caller_checks = options.caller_checks;
  end_if_over(id);
  return id;
}

RequestId Client::write(const protocol::ObjectRef& object, uint64_t offset,
                        std::vector<Buffer> buffers, const IoOptions& options, Time deadline,
                        Time /*now*/) {
  const uint32_t crc = options.crc ? *options.crc : crc_in(buffers, bytes_in(buffers));
  const RequestId id = add_io({.kind = protocol::IoKind::kWrite,
                               .repeatable = options.repeatable,
                               .object = object,
                               .offset = offset,
                               .crc = crc},
                              std::move(buffers), deadline);
  end_if_over(id);
  return id;
}

RequestId Client::submit(protocol::Request request, Time deadline, Time /*now*/) {
  VERBENA_CHECK(!std::holds_alternative<protocol::IoRequest>(request));
  Pending& pending = add(protocol::type_of(request), protocol::effect_of(request), deadline);
  std::visit([&](auto& r) { r.id = pending.id; }, request);
  pending.message.resize(room_for(request));
  const auto size = protocol::encode(request, {}, Completion::kSeal, pending.message);
  pending.message.resize(size.value_or(0));
  const RequestId id = pending.id;
  if (!size) {
    complete(pending_.find(id),
             {.outcome = Outcome::kInvalid, .detail = protocol::text_of(size.error())});
  } else {
    end_if_over(id);
  }
  return id;
}

void Client::cancel(RequestId id, Time /*now*/) {
  const auto it = pending_.find(id);
  if (it != pending_.end() && !it->second.fencing) give_up(it, Outcome::kCancelled);
}

void Client::expire(Time now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const RequestId id = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    give_up(pending_.find(id), Outcome::kTimedOut);
  }
}

// Ends a request without an answer; at once, unless the server may reach its memory.
void Client::give_up(PendingMap::iterator it, Outcome outcome) {
  VERBENA_CHECK(it != pending_.end());
  Pending& pending = it->second;
  const bool in_doubt = pending.effect == protocol::Effect::kStore && pending.ever_sent;
  deadlines_.erase({pending.deadline, pending.id});
  pending.expired = in_doubt ? Outcome::kUnknown : outcome;
  if (!pending.exposed) return complete(it, {.outcome = pending.expired});
  if (std::exchange(pending.fencing, true)) return;
  // When the queue pair is about to end, that is waited for.
  if (state_ != State::kEndingFabric) actions_.emplace_back(Fence{pending.id});
}

void Client::on_fenced(RequestId id, Time /*now*/) {
  const auto it = pending_.find(id);
  if (it == pending_.end() || !it->second.fencing) return;
  it->second.exposed = false;
  complete(it, {.outcome = it->second.expired});
}

void Client::unexpose_all() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto here = it++;
    here->second.exposed = false;
    if (here->second.fencing) complete(here, {.outcome = here->second.expired});
  }
}

void Client::complete(PendingMap::iterator it, Completion completion) {
  Pending& pending = it->second;
  VERBENA_CHECK(!pending.exposed);
  completion.id = pending.id;
  deadlines_.erase({pending.deadline, pending.id});
  // The server still counts it as being in flight.
  if (pending.sent) abandoned_.insert(pending.id);
  pending_.erase(it);
  actions_.emplace_back(Completed{std::move(completion)});
}

// At the beginning of a session, of the requests that were sent in another.
void Client::settle_doubts(bool resumed) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    const auto here = it++;
    const Pending& pending = here->second;
    if (pending.type == protocol::RangeUnregisterRequest::kType) {
      protocol::RangeUnregisterResponse response;
      response.id = pending.id;
      Completion completion;
      completion.message.resize(protocol::kMaxIoOverhead);
      const auto size = protocol::encode(response, {}, Completion::kSeal, completion.message);
      completion.message.resize(size.value_or(0));
      complete(here, std::move(completion));  // the range ended with its session
    } else if (!resumed && pending.ever_sent && pending.effect == protocol::Effect::kStore &&
               !(pending.io && pending.io->repeatable)) {
      complete(here, {.outcome = Outcome::kUnknown});
    }
  }
}

RequestId Client::oldest() const { return pending_.empty() ? next_id_ : pending_.begin()->first; }

bool Client::may_send(const Pending& pending) const {
  return in_flight_ < limits_.window && (pending.effect != protocol::Effect::kStore ||
                                         pending.id - oldest() < limits_.result_span);
}

size_t Client::message_room() const { return limits_.inline_bytes + protocol::kMaxIoOverhead; }

size_t Client::fill(std::span<uint8_t> room) {
  VERBENA_CHECK(room.size() >= message_room());
  if (state_ == State::kBinding && !init_sent_) {
    init_sent_ = true;
    const auto size = protocol::encode(protocol::ConnectInit{.version = protocol::kProtocolVersion},
                                       address_, seal_, room);
    VERBENA_CHECK(size.has_value());
    return *size;
  }
  while (state_ == State::kActive) {
    // Ids rise in a session: all up to last_sent_ were sent, or given up.
    auto it = pending_.upper_bound(last_sent_);
    while (it != pending_.end() && it->second.fencing) ++it;
    if (it == pending_.end() || !may_send(it->second)) return 0;
    Pending& pending = it->second;
    const auto size = encode_request(pending, room);
    if (!size) {
      complete(it, {.outcome = Outcome::kInvalid, .detail = protocol::text_of(size.error())});
      continue;
    }
    last_sent_ = pending.id;
    pending.sent = pending.ever_sent = true;
    ++in_flight_;
    return *size;
  }
  return 0;
}

protocol::Decoded<size_t> Client::encode_request(Pending& pending, std::span<uint8_t> room) {
  if (pending.io) return encode_io(pending, room);
  auto request = protocol::decode_request(pending.message, Completion::kSeal);
  VERBENA_CHECK(request.has_value());
  std::visit([&](auto& r) { r.oldest = oldest(); }, *request);
  return protocol::encode(*request, address_, seal_, room);
}

protocol::Decoded<size_t> Client::encode_io(Pending& pending, std::span<uint8_t> room) {
  protocol::IoRequest io = *pending.io;
  io.oldest = oldest();
  pending.inline_data = io.length <= limits_.inline_bytes;
  if (io.length > limits_.io_bytes) return fail(protocol::Fault::kLength);
  if (!pending.inline_data) {
    if (pending.buffers.size() > limits_.segments) return fail(protocol::Fault::kSegments);
    for (const Buffer& buffer : pending.buffers) {
      io.segments.add({buffer.address, buffer.rkey, buffer.length});
    }
  }
  const auto size = protocol::encode(io, address_, seal_, room);
  if (!size) return size;
  if (!pending.inline_data) {
    pending.exposed = true;
  } else if (io.kind == protocol::IoKind::kWrite) {
    uint8_t* to = room.data() + protocol::payload_offset(io);
    for_pieces(pending.buffers, io.length,
               [&](std::span<uint8_t> piece) { to = std::ranges::copy(piece, to).out; });
  }
  return size;
}

void Client::on_message(Attempt attempt, std::span<const uint8_t> message, Time now) {
  if (attempt != attempt_ || (state_ != State::kBinding && state_ != State::kActive)) return;
  const auto bad = [&](protocol::Fault fault) {
    ++faults_;
    lose(protocol::text_of(fault), now);
  };
  const auto header = protocol::decode_header(message);
  if (!header) return bad(header.error());
  const protocol::Address from{.fabric = header->fabric, .session = header->session};
  if (state_ == State::kBinding) {
    const auto assigned = protocol::decode<protocol::AssignId>(message, seal_);
    if (!assigned) return bad(assigned.error());
    if (from != protocol::Address{assigned->fabric, address_.session}) {
      return bad(protocol::Fault::kIdentity);
    }
    address_ = from;
    state_ = State::kActive;
    connect_deadline_ = kNever;
    failures_ = 0;
    actions_.emplace_back(SessionReady{limits_, server_, resumed_});
    return;
  }
  if (from != address_) return bad(protocol::Fault::kIdentity);
  const auto response = protocol::decode_response(message, seal_);
  if (response) return on_response(*response, message, now);
  if (const auto bad_auth = protocol::decode<protocol::BadAuth>(message, seal_)) {
    return lose(std::string(bad_auth->detail), now);
  }
  if (const auto fatal = protocol::decode<protocol::FatalError>(message, seal_)) {
    return lose(std::string(fatal->detail), now);
  }
  bad(response.error());
}

void Client::on_response(const protocol::Response& response, std::span<const uint8_t> message,
                         Time now) {
  const RequestId id = protocol::id_of(response);
  if (abandoned_.erase(id) != 0) {
    --in_flight_;
    return;
  }
  const auto it = pending_.find(id);
  if (it == pending_.end() || !it->second.sent || !protocol::answers(response, it->second.type)) {
    ++faults_;
    return lose("a response to no request", now);
  }
  Pending& pending = it->second;
  --in_flight_;
  pending.sent = false;
  pending.exposed = false;  // the server responds after its last operation on the memory
  complete(it, completion_of(pending, response, message));
}

Completion Client::completion_of(const Pending& pending, const protocol::Response& response,
                                 std::span<const uint8_t> message) {
  Completion completion;
  completion.status = protocol::status_of(response);
  completion.detail = protocol::detail_of(response);
  const auto* io = std::get_if<protocol::IoResponse>(&response);
  if (io == nullptr) {
    completion.message.assign(message.begin(), message.end());
    return completion;
  }
  completion.object = io->object;
  completion.length = io->length;
  completion.crc = io->crc;
  if (const char* wrong = wrong_with(pending, *io)) {
    completion.outcome = Outcome::kCorrupted;
    completion.detail = wrong;
    completion.length = 0;
  }
  return completion;
}

// Compares a response with its request, and the data with its CRC; stores inline data.
const char* Client::wrong_with(const Pending& pending, const protocol::IoResponse& io) {
  const protocol::IoRequest& request = *pending.io;
  const bool ok = io.status == protocol::Status::kOk;
  const bool by_id = request.object.kind == protocol::ObjectRef::Kind::kId;
  if (by_id && (ok || io.object != ObjectId{}) && io.object != request.object.id) {
    return "the response is for another object";
  }
  if (io.offset != request.offset) return "the response is for another offset";
  if (!ok) return nullptr;
  if (request.kind == protocol::IoKind::kWrite) {
    if (io.length != request.length) return "the response is for another length";
    if (io.crc != request.crc) return "the CRC of the stored data is not that of the data sent";
    return nullptr;
  }
  if (io.length > request.length) return "the response has more data than was asked for";
  // Few bytes may come with the response, wherever they were wanted.
  if (pending.inline_data && !io.data_inline) return "the data came by the wrong way";
  if (pending.caller_checks && !io.data_inline) return nullptr;
  const uint32_t crc =
      io.data_inline ? copy_in(pending.buffers, io.payload) : crc_in(pending.buffers, io.length);
  if (crc != io.crc) return "the CRC of the data that arrived is wrong";
  return nullptr;
}

}  // namespace verbena::session
