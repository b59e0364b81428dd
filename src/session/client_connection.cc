// SPDX-License-Identifier: Apache-2.0
// Connecting, the side channel, losing the connection and connecting again.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "session/client.h"
#include "session/draw.h"

namespace verbena::session {

using protocol::EndReason;

namespace {

// Connecting again would end the same way.
[[nodiscard]] bool is_final(EndReason reason) {
  return reason == EndReason::kVersion || reason == EndReason::kSecretRequired ||
         reason == EndReason::kNoSecret || reason == EndReason::kWrongSecret ||
         reason == EndReason::kNoFabric;
}

}  // namespace

Client::Client(ClientOptions options, RandomSource& random)
    : options_(std::move(options)), random_(random) {
  instance_ = draw_bytes<sizeof(protocol::InstanceId)>(random_);
}

void Client::start(Time now) {
  VERBENA_CHECK(state_ == State::kIdle);
  connect(now);
}

bool Client::side_open() const { return !side_closed_; }

void Client::send_side(const protocol::SideMessage& message) {
  actions_.emplace_back(SendSide{attempt_, protocol::frame_of(message)});
}

void Client::close_side() {
  if (side_closed_) return;
  side_closed_ = true;
  actions_.emplace_back(CloseSide{attempt_});
}

void Client::connect(Time now) {
  VERBENA_CHECK(!fabric_open_);
  ++attempt_;
  state_ = State::kConnecting;
  side_closed_ = false;
  reader_ = {};
  transcript_ = {};
  retry_at_ = kNever;
  connect_deadline_ = now + options_.connect_timeout;
  actions_.emplace_back(ConnectSide{attempt_});
}

// The session is over, or never came about. The queue pair ends first: as long as it lives, the
// server can reach the memory of requests.
void Client::lose(std::string why, Time now) {
  if (state_ == State::kIdle || state_ >= State::kEndingFabric) return;
  // Of the fabric, its owner knows more.
  if (state_ == State::kActive || in_handshake()) {
    actions_.emplace_back(SessionLost{std::move(why)});
  }
  close_side();
  connect_deadline_ = ping_at_ = silent_at_ = kNever;
  init_sent_ = false;
  state_ = State::kEndingFabric;
  if (fabric_open_) {
    actions_.emplace_back(EndFabric{attempt_});
  } else {
    after_fabric_ended(now);
  }
}

void Client::on_fabric_ended(Attempt attempt, Time now) {
  if (attempt != attempt_ || !fabric_open_) return;
  fabric_open_ = false;
  unexpose_all();
  if (state_ == State::kEndingFabric) return after_fabric_ended(now);
  lose("the queue pair ended", now);  // unasked
}

void Client::after_fabric_ended(Time now) {
  for (auto& [id, pending] : pending_) pending.sent = false;
  in_flight_ = 0;
  abandoned_.clear();
  last_sent_ = 0;
  if (closing_) {
    while (!pending_.empty()) give_up(pending_.begin(), Outcome::kCancelled);
    state_ = State::kClosed;
    actions_.emplace_back(ClientClosed{});
    return;
  }
  state_ = State::kBackOff;
  const Duration longest =
      std::min(options_.max_back_off, options_.first_back_off << std::min<uint32_t>(failures_, 20));
  ++failures_;
  // A random part, so that many clients of one server do not come back at the same moment.
  retry_at_ = now + longest / 2 +
              static_cast<Duration>(random_.below(static_cast<uint64_t>(longest / 2 + 1)));
}

void Client::refused(EndReason reason, std::string_view detail, Time now) {
  actions_.emplace_back(ClientRefused{reason, std::string(detail)});
  lose(std::string(detail), now);
  // Refusals come before the fabric is used.
  VERBENA_CHECK(!fabric_open_);
  while (!pending_.empty()) give_up(pending_.begin(), Outcome::kRefused);
  if (state_ == State::kClosed) return;
  retry_at_ = kNever;
  state_ = State::kRefused;
}

void Client::close(Time now) {
  if (closing_) return;
  closing_ = true;
  if (side_open() && state_ >= State::kFabric && state_ <= State::kActive) {
    send_side(protocol::Goodbye{.reason = EndReason::kDone, .detail = {}});
  }
  if (state_ == State::kEndingFabric) return;
  if (state_ == State::kIdle || state_ == State::kBackOff || state_ == State::kRefused) {
    retry_at_ = kNever;
    return after_fabric_ended(now);
  }
  lose("closed", now);
}

void Client::on_side_connected(Attempt attempt, Time /*now*/) {
  if (attempt != attempt_ || state_ != State::kConnecting) return;
  protocol::Hello hello;
  hello.features = options_.secret.empty() ? 0 : protocol::kFeatureSecret;
  hello.features |= uint64_t{options_.fabric} << protocol::kFabricShift;
  hello.client = instance_;
  hello.nonce = draw_bytes<sizeof(protocol::Nonce)>(random_);
  hello.resume_session = address_.session;
  hello.resume_key = key_;
  transcript_.hello = protocol::frame_of(hello);
  send_side(hello);
  state_ = State::kHello;
}

void Client::on_side_closed(Attempt attempt, Time now) {
  if (attempt != attempt_ || side_closed_) return;
  side_closed_ = true;
  lose("the side channel was closed", now);
}

void Client::on_side_bytes(Attempt attempt, std::span<const uint8_t> bytes, Time now) {
  while (attempt == attempt_ && side_open() && !bytes.empty()) {
    const auto frame = reader_.next(bytes);
    if (!frame) return on_bad_frame(frame.error(), now);
    if (!frame->empty()) on_frame(*frame, now);
  }
}

void Client::on_bad_frame(protocol::Fault fault, Time now) {
  ++faults_;
  std::string why = protocol::text_of(fault);
  if (in_handshake()) why = "the answer is not that of a Verbena server (" + why + ")";
  lose(std::move(why), now);
}

void Client::on_frame(std::span<const uint8_t> frame, Time now) {
  const auto message = protocol::decode_frame(frame);
  if (!message) return on_bad_frame(message.error(), now);
  if (const auto* goodbye = std::get_if<protocol::Goodbye>(&*message)) {
    return on_goodbye(*goodbye, now);
  }
  if (const auto* challenge = std::get_if<protocol::Challenge>(&*message)) {
    if (state_ == State::kHello) return on_challenge(*challenge, frame, now);
  } else if (const auto* welcome = std::get_if<protocol::Welcome>(&*message)) {
    if (state_ == State::kHello || state_ == State::kProof) return on_welcome(*welcome, now);
  } else if (std::holds_alternative<protocol::SidePong>(*message)) {
    if (state_ == State::kFabric || state_ == State::kBinding || state_ == State::kActive) {
      silent_at_ = now + Duration{limits_.silence_ms} * kMillisecond;
      return;
    }
  }
  ++faults_;
  lose("unexpected frame on the side channel", now);
}

void Client::on_challenge(const protocol::Challenge& challenge, std::span<const uint8_t> frame,
                          Time now) {
  if (options_.secret.empty()) {
    return refused(EndReason::kSecretRequired, protocol::text_of(EndReason::kSecretRequired), now);
  }
  if (challenge.version != protocol::kProtocolVersion) {
    return refused(EndReason::kVersion, protocol::text_of(EndReason::kVersion), now);
  }
  transcript_.challenge = protocol::with_length(frame);
  const protocol::Proof proof{.mac = client_mac(options_.secret, transcript_)};
  transcript_.proof = protocol::frame_of(proof);
  send_side(proof);
  state_ = State::kProof;
}

void Client::on_welcome(const protocol::Welcome& welcome, Time now) {
  // Whoever takes the CHALLENGE away makes the secret useless: that must not work.
  if (!options_.secret.empty() && state_ != State::kProof) {
    return refused(EndReason::kNoSecret, protocol::text_of(EndReason::kNoSecret), now);
  }
  if (!options_.secret.empty() &&
      !same_mac(welcome.mac, server_mac(options_.secret, transcript_, welcome))) {
    return refused(EndReason::kWrongSecret, protocol::text_of(EndReason::kWrongSecret), now);
  }
  if (welcome.version != protocol::kProtocolVersion || welcome.session == 0 ||
      !protocol::usable(welcome.limits)) {
    ++faults_;
    return lose("the server's WELCOME is not valid", now);
  }
  // A server that was started anew remembers nothing, whatever it says.
  resumed_ = welcome.resumed && welcome.server == server_ && address_.session != 0;
  seal_ = options_.secret.empty()
              ? protocol::Seal::with_key(welcome.key)
              : protocol::Seal::with_secret(session_key(options_.secret, transcript_, welcome));
  address_ = {.fabric = 0, .session = welcome.session};
  key_ = welcome.key;
  server_ = welcome.server;
  limits_ = welcome.limits;
  limits_.inline_bytes = std::min(limits_.inline_bytes, options_.max_inline_bytes);
  settle_doubts(resumed_);
  ping_at_ = now + Duration{limits_.keep_alive_ms} * kMillisecond;
  silent_at_ = now + Duration{limits_.silence_ms} * kMillisecond;
  state_ = State::kFabric;
  fabric_open_ = true;
  actions_.emplace_back(
      ConnectFabric{attempt_, std::string(welcome.fabric_host), welcome.fabric_port});
}

// The server does not believe that this is the client it knows: go on as a new one. What the other
// did stays unknown.
void Client::become_another() {
  instance_ = draw_bytes<sizeof(protocol::InstanceId)>(random_);
  address_ = {};
  key_ = 0;
  settle_doubts(false);
}

void Client::on_goodbye(const protocol::Goodbye& goodbye, Time now) {
  const std::string detail(goodbye.detail);
  const bool before_welcome = state_ == State::kHello || state_ == State::kProof;
  if (before_welcome && is_final(goodbye.reason)) return refused(goodbye.reason, detail, now);
  if (before_welcome && goodbye.reason == EndReason::kInUse) become_another();
  lose(detail.empty() ? protocol::text_of(goodbye.reason) : detail, now);
}

void Client::on_fabric_connected(Attempt attempt, Time /*now*/) {
  if (attempt == attempt_ && state_ == State::kFabric) state_ = State::kBinding;
}

void Client::on_fabric_failed(Attempt attempt, Time now) {
  if (attempt == attempt_) lose("the queue pair failed", now);
}

void Client::on_time(Time now) {
  if (now >= connect_deadline_) lose("connecting took too long", now);
  if (now >= silent_at_) lose("the server is silent", now);
  if (now >= ping_at_) {
    send_side(protocol::SidePing{.cookie = static_cast<uint64_t>(now)});
    ping_at_ = now + Duration{limits_.keep_alive_ms} * kMillisecond;
  }
  expire(now);
  if (now >= retry_at_) connect(now);
}

Time Client::next_time() const {
  Time next = std::min({connect_deadline_, silent_at_, ping_at_, retry_at_});
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  return next;
}

}  // namespace verbena::session
