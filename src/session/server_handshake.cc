// SPDX-License-Identifier: Apache-2.0
// The side channel, up to WELCOME and after it.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "session/draw.h"
#include "session/server.h"

namespace verbena::session {

using protocol::EndReason;

namespace {

constexpr size_t kMaxFabricNames = 300;  // bytes, of a text

}  // namespace

Server::Server(ServerOptions options, RandomSource& random)
    : options_(std::move(options)), random_(random) {
  VERBENA_CHECK(protocol::usable(options_.limits));
  incarnation_ = draw_bytes<sizeof(protocol::InstanceId)>(random_);
}
Server::~Server() = default;

uint64_t Server::draw_nonzero() {
  for (;;) {
    if (const uint64_t number = random_.next(); number != 0) return number;
  }
}

void Server::send(const Peer& peer, const protocol::SideMessage& message) {
  if (peer.open) actions_.emplace_back(SendFrame{peer.connection, protocol::frame_of(message)});
}

void Server::on_connection(ConnectionId connection, Time now) {
  counters_.add(ServerCounter::kConnections);
  if (unauthenticated_.size() >= options_.max_unauthenticated) {
    counters_.add(ServerCounter::kEvictedConnections);
    refuse(*peers_.at(unauthenticated_.front()), EndReason::kBusy, "too many new connections");
  }
  auto& peer = *peers_.emplace(connection, std::make_unique<Peer>()).first->second;
  peer.connection = connection;
  peer.place = unauthenticated_.insert(unauthenticated_.end(), connection);
  timers_.set(peer, now + options_.handshake_timeout);
  if (shutting_down_) refuse(peer, EndReason::kShutdown, {});
}

void Server::on_bytes(ConnectionId connection, std::span<const uint8_t> bytes, Time now) {
  while (!bytes.empty()) {
    // Each frame may end the connection.
    const auto it = peers_.find(connection);
    if (it == peers_.end() || !it->second->open) return;
    Peer& peer = *it->second;
    const auto frame = peer.reader.next(bytes);
    if (!frame) {
      ++faults_[static_cast<size_t>(frame.error())];
      end_peer(peer, EndReason::kProtocol, protocol::text_of(frame.error()), now);
      return;
    }
    if (!frame->empty()) on_frame(peer, *frame, now);
  }
}

void Server::on_frame(Peer& peer, std::span<const uint8_t> frame, Time now) {
  const auto message = protocol::decode_frame(frame);
  if (!message) {
    ++faults_[static_cast<size_t>(message.error())];
    end_peer(peer, EndReason::kProtocol, protocol::text_of(message.error()), now);
    return;
  }
  if (const auto* hello = std::get_if<protocol::Hello>(&*message)) {
    if (peer.state == State::kHello) {
      peer.transcript.hello = protocol::with_length(frame);
      return on_hello(peer, *hello, now);
    }
  } else if (const auto* proof = std::get_if<protocol::Proof>(&*message)) {
    if (peer.state == State::kProof) {
      peer.transcript.proof = protocol::with_length(frame);
      return on_proof(peer, *proof, now);
    }
  } else if (const auto* ping = std::get_if<protocol::SidePing>(&*message)) {
    if (peer.state == State::kUnbound || peer.state == State::kActive) {
      if (peer.state == State::kActive) {
        timers_.set(peer, now + Duration{options_.limits.silence_ms} * kMillisecond);
      }
      return send(peer, protocol::SidePong{.cookie = ping->cookie});
    }
  } else if (const auto* goodbye = std::get_if<protocol::Goodbye>(&*message)) {
    peer.said_goodbye = goodbye->reason == EndReason::kDone;
    return end_peer(peer, EndReason::kDone, {}, now);
  }
  ++faults_[static_cast<size_t>(protocol::Fault::kUnexpected)];
  end_peer(peer, EndReason::kProtocol, protocol::text_of(protocol::Fault::kUnexpected), now);
}

void Server::on_hello(Peer& peer, const protocol::Hello& hello, Time now) {
  peer.hello = hello;
  const bool client_has_secret = (hello.features & protocol::kFeatureSecret) != 0;
  if (hello.min_version > protocol::kProtocolVersion ||
      hello.max_version < protocol::kProtocolVersion) {
    const std::string version = std::to_string(protocol::kProtocolVersion);
    return refuse(peer, EndReason::kVersion, "the server has version " + version);
  }
  if (!port_for(hello)) {
    std::string names;
    for (const OfferedFabric& fabric : options_.fabrics) {
      names += (names.empty() ? "" : ", ") + fabric.name;
    }
    return refuse(peer, EndReason::kNoFabric,
                  "the server does not have the fabric that this client uses; it has " +
                      names.substr(0, kMaxFabricNames));
  }
  if (options_.secret.empty()) {
    if (client_has_secret) return refuse(peer, EndReason::kNoSecret, {});
    return on_authenticated(peer, now);
  }
  if (!client_has_secret) return refuse(peer, EndReason::kSecretRequired, {});
  peer.nonce = draw_bytes<sizeof(protocol::Nonce)>(random_);
  const protocol::Challenge challenge{
      .version = protocol::kProtocolVersion, .server = incarnation_, .nonce = peer.nonce};
  peer.transcript.challenge = protocol::frame_of(challenge);
  send(peer, challenge);
  peer.state = State::kProof;
}

// Where the fabric that the client uses is. Nothing: there is none.
std::optional<uint16_t> Server::port_for(const protocol::Hello& hello) const {
  const auto wanted = static_cast<uint32_t>(hello.features >> protocol::kFabricShift);
  if (wanted == 0 || options_.fabrics.empty()) return options_.fabric_port;
  const auto found = std::ranges::find(options_.fabrics, wanted, [](const OfferedFabric& fabric) {
    return protocol::number_of_fabric(fabric.name);
  });
  if (found == options_.fabrics.end()) return std::nullopt;
  return found->port;
}

void Server::on_proof(Peer& peer, const protocol::Proof& proof, Time now) {
  if (!same_mac(proof.mac, client_mac(options_.secret, peer.transcript))) {
    return refuse(peer, EndReason::kWrongSecret, {});
  }
  on_authenticated(peer, now);
}

// Whether the client knows a session of this instance, which nobody else does. It has not heard of
// those before it any more.
bool Server::take_token(const protocol::Hello& hello, ClientRecord& record) const {
  const auto it = std::ranges::find_if(record.tokens, [&](const Token& token) {
    return hello.resume_session == token.session &&
           (!options_.secret.empty() || hello.resume_key == token.key);
  });
  if (it == record.tokens.end()) return false;
  record.tokens.erase(record.tokens.begin(), it);
  return true;
}

// One record fewer, if there are too many: that of the client that is away for longest.
bool Server::make_room_for_client() {
  if (clients_.size() < options_.max_clients) return true;
  if (away_.empty()) return false;
  forget_oldest_client();
  return true;
}

void Server::on_authenticated(Peer& peer, Time now) {
  auto it = clients_.find(peer.hello.client);
  if (it == clients_.end()) {
    if (!make_room_for_client()) return refuse(peer, EndReason::kBusy, "too many clients");
    ClientRecord& fresh = clients_.emplace(peer.hello.client, ClientRecord{}).first->second;
    fresh.tokens.push_back({peer.hello.resume_session, peer.hello.resume_key, false});
    leave(peer.hello.client, fresh, now);
    return welcome(peer, now);
  }
  ClientRecord& record = it->second;
  if (!take_token(peer.hello, record)) return refuse(peer, EndReason::kInUse, {});
  if (record.waiting != 0) refuse(*peers_.at(record.waiting), EndReason::kReplaced, {});
  if (record.session == 0) return welcome(peer, now);
  unauthenticated_.erase(peer.place);
  peer.state = State::kWaiting;
  record.waiting = peer.connection;
  timers_.set(peer, now + options_.bind_timeout);
  end_peer(*find_session(record.session), EndReason::kReplaced, {}, now);
}

void Server::welcome(Peer& peer, Time now) {
  ClientRecord& record = clients_.at(peer.hello.client);
  if (shutting_down_ || by_session_.size() >= options_.max_sessions) {
    const protocol::InstanceId client = peer.hello.client;
    refuse(peer, shutting_down_ ? EndReason::kShutdown : EndReason::kBusy, {});
    if (record.tokens.size() == 1 && !record.tokens.front().remembered) {  // it never had a session
      stay(record);
      clients_.erase(client);
    }
    return;
  }
  if (peer.state != State::kWaiting) unauthenticated_.erase(peer.place);
  stay(record);
  do {
    peer.session = draw_nonzero();
  } while (by_session_.contains(peer.session));
  const protocol::Welcome welcome = make_welcome(peer, record.tokens.front().remembered);
  record.session = peer.session;
  peer.record = &record;
  if (record.tokens.size() == kMaxTokens) record.tokens.erase(record.tokens.begin() + 1);
  record.tokens.push_back({peer.session, welcome.key, true});
  by_session_.emplace(peer.session, &peer);
  peer.state = State::kUnbound;
  peer.place = unbound_sessions_.insert(unbound_sessions_.end(), peer.connection);
  timers_.set(peer, now + options_.bind_timeout);
  counters_.add(ServerCounter::kSessions);
  if (welcome.resumed) counters_.add(ServerCounter::kResumed);
  send(peer, welcome);
  if (unbound_sessions_.size() > options_.max_unbound) {
    counters_.add(ServerCounter::kEvictedConnections);
    end_peer(*peers_.at(unbound_sessions_.front()), EndReason::kBusy, {}, now);
  }
}

protocol::Welcome Server::make_welcome(Peer& peer, bool resumed) {
  const bool tagged = !options_.secret.empty();
  protocol::Welcome welcome{.version = protocol::kProtocolVersion,
                            .server = incarnation_,
                            .session = peer.session,
                            .key = tagged ? 0 : draw_nonzero(),
                            .resumed = resumed,
                            .limits = options_.limits,
                            .fabric_host = options_.fabric_host,
                            .fabric_port = *port_for(peer.hello),
                            .mac = {}};
  peer.seal = protocol::Seal::with_key(welcome.key);
  if (tagged) {
    welcome.mac = server_mac(options_.secret, peer.transcript, welcome);
    peer.seal = protocol::Seal::with_secret(session_key(options_.secret, peer.transcript, welcome));
  }
  if (!options_.check_identity) peer.seal = peer.seal.without_checks();
  peer.transcript = {};
  return welcome;
}

// Ends a connection that has no session.
void Server::refuse(Peer& peer, EndReason reason, std::string_view detail) {
  counters_.add(ServerCounter::kHandshakesFailed);
  send(peer, protocol::Goodbye{.reason = reason,
                               .detail = detail.empty() ? protocol::text_of(reason) : detail});
  if (peer.open) actions_.emplace_back(CloseConnection{peer.connection});
  remove_connection(peer);
}

void Server::remove_connection(Peer& peer) {
  if (peer.state == State::kHello || peer.state == State::kProof) {
    unauthenticated_.erase(peer.place);
  } else if (peer.state == State::kWaiting) {
    clients_.at(peer.hello.client).waiting = 0;
  }
  timers_.remove(peer);
  peers_.erase(peer.connection);
}

void Server::on_connection_closed(ConnectionId connection, Time now) {
  const auto it = peers_.find(connection);
  if (it == peers_.end() || !it->second->open) return;
  it->second->open = false;
  end_peer(*it->second, EndReason::kDone, {}, now);
}

}  // namespace verbena::session
