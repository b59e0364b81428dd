// SPDX-License-Identifier: Apache-2.0
// Messages of the fabric: binding queue pairs to sessions, and requests.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "session/server.h"

namespace verbena::session {

using protocol::EndReason;
using protocol::Fault;

namespace {

// What is remembered is a message of nobody's.
const protocol::Seal kMemorySeal = protocol::Seal::with_key(0);
constexpr size_t kMaxRememberedBytes =
    2048;  // no response to a request that changes the store is longer

[[nodiscard]] bool is_plain(const protocol::Request& request) {
  const auto* io = std::get_if<protocol::IoRequest>(&request);
  return io != nullptr && io->plain;
}

}  // namespace

protocol::Address Server::address_of(const Peer& peer) const {
  return {.fabric = peer.fabric, .session = peer.session};
}

void Server::on_queue_pair(QueuePairId queue_pair, Time now) {
  if (shutting_down_) {
    actions_.emplace_back(CloseQueuePair{queue_pair});
    return;
  }
  if (unbound_.size() >= options_.max_unbound) {
    counters_.add(ServerCounter::kEvictedQueuePairs);
    actions_.emplace_back(CloseQueuePair{unbound_.front().queue_pair});
    unbound_.pop_front();
  }
  unbound_.push_back({queue_pair, now + options_.bind_timeout});
}

void Server::drop_unbound(QueuePairId queue_pair) {
  std::erase_if(unbound_, [&](const Unbound& u) { return u.queue_pair == queue_pair; });
}

std::optional<Admitted> Server::on_message(QueuePairId queue_pair, std::span<const uint8_t> message,
                                           Time now) {
  if (const auto it = by_queue_pair_.find(queue_pair); it != by_queue_pair_.end()) {
    if (it->second->state != State::kActive) return std::nullopt;  // ending: refused
    return on_request(*it->second, message, now);
  }
  on_connect_init(queue_pair, message, now);
  return std::nullopt;
}

void Server::on_connect_init(QueuePairId queue_pair, std::span<const uint8_t> message, Time now) {
  const auto is = [&](const Unbound& u) { return u.queue_pair == queue_pair; };
  if (std::ranges::none_of(unbound_, is)) return;  // closed already
  drop_unbound(queue_pair);
  const auto reject = [&](Fault fault) {
    counters_.add(ServerCounter::kBadMessages);
    ++faults_[static_cast<size_t>(fault)];
    actions_.emplace_back(CloseQueuePair{queue_pair});
  };
  const auto header = protocol::decode_header(message);
  if (!header) return reject(header.error());
  Peer* peer = find_session(header->session);
  if (peer == nullptr || peer->state != State::kUnbound || header->fabric != 0) {
    return reject(Fault::kIdentity);
  }
  const auto init = protocol::decode<protocol::ConnectInit>(message, peer->seal);
  if (!init) return reject(init.error());
  if (init->version != protocol::kProtocolVersion) return reject(Fault::kReserved);

  unbound_sessions_.erase(peer->place);
  peer->state = State::kActive;
  peer->queue_pair = queue_pair;
  peer->fabric = draw_nonzero();
  by_queue_pair_.emplace(queue_pair, peer);
  ClientRecord& record = *peer->record;
  record.tokens.erase(record.tokens.begin(),
                      record.tokens.end() - 1);  // this session's is the last
  timers_.set(*peer, now + Duration{options_.limits.silence_ms} * kMillisecond);
  std::vector<uint8_t> bytes(protocol::kMaxIoOverhead);
  const auto size = protocol::encode(protocol::AssignId{.fabric = peer->fabric}, address_of(*peer),
                                     peer->seal, bytes);
  VERBENA_CHECK(size.has_value());
  bytes.resize(*size);
  actions_.emplace_back(SessionBegun{peer->session, queue_pair});
  actions_.emplace_back(SendMessage{queue_pair, std::move(bytes)});
}

std::optional<Admitted> Server::on_request(Peer& peer, std::span<const uint8_t> message, Time now) {
  const auto header = protocol::decode_header(message);
  if (!header) {
    on_bad_message(peer, header.error(), now);
    return std::nullopt;
  }
  if (options_.check_identity &&
      protocol::Address{header->fabric, header->session} != address_of(peer)) {
    on_bad_message(peer, Fault::kIdentity, now);
    return std::nullopt;
  }
  auto request = protocol::decode_request(message, peer.seal);
  if (request) return admit(peer, *request, now);
  if (request.error() != Fault::kType) {
    on_bad_message(peer, request.error(), now);
    return std::nullopt;
  }
  const auto unknown = protocol::decode_unknown(message, peer.seal);
  if (!unknown) {
    on_bad_message(peer, unknown.error(), now);
  } else if (unknown->id <= peer.last_id) {
    on_bad_message(peer, Fault::kOrder, now);
  } else {
    peer.last_id = unknown->id;
    counters_.add(ServerCounter::kUnknownTypes);
    answer(peer, protocol::Refused{.id = unknown->id,
                                   .status = protocol::Status::kUnsupported,
                                   .detail = "unknown message type",
                                   .type = static_cast<uint64_t>(unknown->type)});
  }
  return std::nullopt;
}

// Why a valid request is not executed in this session; nullptr: it is.
const char* Server::beyond_limits(const protocol::Request& request) const {
  const protocol::Limits& limits = options_.limits;
  if (const auto* ping = std::get_if<protocol::Ping>(&request)) {
    return ping->data.size() > limits.inline_bytes ? "data above the inline limit" : nullptr;
  }
  const auto* io = std::get_if<protocol::IoRequest>(&request);
  if (io == nullptr) return nullptr;
  if (io->plain && !options_.secret.empty()) return "plain request in a session with a secret";
  if (io->length > limits.io_bytes) return "more data than one request may have";
  if (io->segments.size() > limits.segments) return "too many segments";
  if (io->segments.empty() && io->length > limits.inline_bytes) {
    return "inline data above the limit";
  }
  return nullptr;
}

std::optional<Admitted> Server::admit(Peer& peer, const protocol::Request& request, Time now) {
  const uint64_t id = protocol::id_of(request);
  const uint64_t oldest = protocol::oldest_of(request);
  if (peer.in_flight >= options_.limits.window) {
    on_bad_message(peer, Fault::kWindow, now);
    return std::nullopt;
  }
  ResultMemory& memory = peer.record->memory;
  if (!is_plain(request)) {
    if (id <= peer.last_id || oldest > id) {
      on_bad_message(peer, Fault::kOrder, now);
      return std::nullopt;
    }
    peer.last_id = id;
    memory.forget_below(oldest);
  }
  if (const char* why = beyond_limits(request)) {
    answer(peer, protocol::failure_of(request, protocol::Status::kTooLarge, why));
    return std::nullopt;
  }
  if (protocol::effect_of(request) == protocol::Effect::kStore) {
    using Verdict = ResultMemory::Verdict;
    const auto begun = memory.begin(id, protocol::type_of(request), options_.limits.result_span);
    if (begun.verdict == Verdict::kFinished) {
      const auto response = protocol::decode_response(begun.response, kMemorySeal);
      VERBENA_CHECK(response.has_value());
      counters_.add(ServerCounter::kAnsweredFromMemory);
      answer(peer, *response);
      return std::nullopt;
    }
    if (begun.verdict == Verdict::kMismatch) {
      answer(peer, protocol::failure_of(request, protocol::Status::kMismatch,
                                        "the id belongs to another request"));
      return std::nullopt;
    }
    if (begun.verdict == Verdict::kSpan) {
      on_bad_message(peer, Fault::kWindow, now);
      return std::nullopt;
    }
    VERBENA_CHECK(begun.verdict == Verdict::kNew);
  }
  ++peer.in_flight;
  counters_.add(ServerCounter::kRequests);
  return Admitted{.session = peer.session, .request = request};
}

void Server::on_bad_message(Peer& peer, Fault fault, Time now) {
  counters_.add(ServerCounter::kBadMessages);
  ++faults_[static_cast<size_t>(fault)];
  const char* why = protocol::text_of(fault);
  std::vector<uint8_t> bytes(protocol::kMaxIoOverhead);
  const bool identity = fault == Fault::kIdentity || fault == Fault::kKey;
  const auto size = identity ? protocol::encode(protocol::BadAuth{.detail = why}, address_of(peer),
                                                peer.seal, bytes)
                             : protocol::encode(protocol::FatalError{.detail = why},
                                                address_of(peer), peer.seal, bytes);
  VERBENA_CHECK(size.has_value());
  bytes.resize(*size);
  actions_.emplace_back(SendMessage{peer.queue_pair, std::move(bytes)});
  end_peer(peer, EndReason::kProtocol, why, now);
}

void Server::answer(const Peer& peer, const protocol::Response& response) {
  std::vector<uint8_t> bytes(protocol::kMaxIoOverhead);
  const auto size = protocol::encode(response, address_of(peer), peer.seal, bytes);
  VERBENA_CHECK(size.has_value());
  bytes.resize(*size);
  actions_.emplace_back(SendMessage{peer.queue_pair, std::move(bytes)});
}

size_t Server::respond(SessionId session, const protocol::Request& request,
                       const protocol::Response& response, std::span<uint8_t> room, Time now) {
  Peer* peer = find_session(session);
  VERBENA_CHECK(peer != nullptr && peer->in_flight > 0);
  --peer->in_flight;
  if (protocol::effect_of(request) == protocol::Effect::kStore) {
    std::array<uint8_t, kMaxRememberedBytes> bytes;
    const auto size = protocol::encode(response, {}, kMemorySeal, bytes);
    VERBENA_CHECK(size.has_value());
    peer->record->memory.finish(protocol::id_of(request), std::span(bytes).first(*size));
  }
  if (peer->state != State::kActive) {
    try_leave_writes(*peer, now);
    return 0;
  }
  const auto size = protocol::encode(response, address_of(*peer), peer->seal, room);
  VERBENA_CHECK(size.has_value());
  return *size;
}

void Server::abandon(SessionId session, const protocol::Request& request, Time now) {
  Peer* peer = find_session(session);
  VERBENA_CHECK(peer != nullptr && peer->state == State::kEnding && peer->in_flight > 0);
  --peer->in_flight;
  if (protocol::effect_of(request) == protocol::Effect::kStore) {
    peer->record->memory.abandon(protocol::id_of(request));
  }
  try_leave_writes(*peer, now);
}

}  // namespace verbena::session
