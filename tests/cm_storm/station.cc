// SPDX-License-Identifier: Apache-2.0
#include "cm_storm/station.h"

#include <algorithm>
#include <utility>

#include "base/endian.h"

namespace verbena::cm_storm {
namespace {

using cm::EventKind;
using transport::Completion;
using transport::WcStatus;

constexpr uint64_t kService = cm::service_id(cm::PortSpace::kTcp, 7174);
// As the device's PeerWatch has them.
constexpr Duration kIdle = 10 * kSecond;
constexpr Duration kPatience = 60 * kSecond;

[[nodiscard]] wire::Psn draw_psn(RandomSource& random) {
  return wire::Psn(static_cast<uint32_t>(random.next()));
}

}  // namespace

Station::Station(sim::World& world, uint32_t host, const cm::Config& config, const Manners& manners,
                 Sights& sights, Stations stations)
    : world_(world),
      host_(host),
      manners_(manners),
      sights_(sights),
      stations_(std::move(stations)),
      random_(world.random().next()),
      manager_(config, *this, *this, random_) {
  make_gsi();
  SIM_REQUIRE(manager_.listen({.service_id = kService}).has_value(), "cannot listen");
}

void Station::later(Duration at_most, std::function<void()> what) {
  const auto delay = static_cast<Duration>(world_.draw(0, static_cast<uint64_t>(at_most)));
  world_.after(delay, [this, what = std::move(what)] {
    if (dead_ || closing_) return;
    what();
    arm();
  });
}

void Station::arm() {
  const Time due = manager_.next_timer();
  if (due >= armed_) return;
  armed_ = due;
  world_.at(due, [this, due] {
    if (armed_ == due) armed_ = kNever;
    if (dead_) return;
    manager_.on_timer(world_.now());
    arm();
  });
}

void Station::connect(uint32_t peer) {
  if (dead_) return;
  const auto number = static_cast<uint32_t>(calls_.size());
  Call& call = calls_.emplace_back();
  call.active = true;
  call.token = world_.random().next();
  call.peer = peer;
  call.our_psn = draw_psn(world_.random());
  make_qp(number);
  std::array<uint8_t, 8> token{};
  store_be64(token.data(), call.token);
  const wire::Gid& from = world_.node(host_).address();
  const wire::Gid& to = world_.node(peer).address();
  const auto id = manager_.connect({.source = from,
                                    .destination = to,
                                    .service_id = kService,
                                    .addresses = cm::AddressHeader{1, from, to},
                                    .private_data = token,
                                    .qp = {.qpn = call.our_qpn, .psn = call.our_psn}},
                                   world_.now());
  SIM_REQUIRE(id.has_value(), "connect() refused");
  call.id = *id;
  arm();
}

uint32_t Station::number_of(cm::CommId id) const {
  const auto found = std::ranges::find_if(
      calls_, [id](const Call& call) { return call.id == id && call.stage != Stage::kGone; });
  SIM_REQUIRE(found != calls_.end(), "an event of a connection that is gone");
  return static_cast<uint32_t>(found - calls_.begin());
}

const Call* Station::find(Qpn qpn, wire::Psn psn) const {
  const auto found = std::ranges::find_if(
      calls_, [&](const Call& call) { return call.our_qpn == qpn && call.our_psn == psn; });
  return found == calls_.end() ? nullptr : &*found;
}

// ---- what the manager tells; it must not be called from here

void Station::on_request(const cm::Event& event) {
  const auto number = static_cast<uint32_t>(calls_.size());
  Call& call = calls_.emplace_back();
  call.id = event.id;
  for (uint32_t i = 0; i < world_.hosts(); ++i) {
    if (world_.node(i).address() == event.destination) call.peer = i;
  }
  call.token = load_be64(event.private_data.data());
  call.peer_qpn = event.qp.qpn;
  call.peer_psn = event.qp.psn;
  later(manners_.think, [this, number] { answer_request(number); });
}

void Station::on_event(const cm::Event& event) {
  if (world_.trace().printing()) {
    world_.trace().say("host %u  %s of 0x%08x", host_, to_string(event.kind), event.id.value);
  }
  if (event.kind == EventKind::kConnectRequest) return on_request(event);
  const uint32_t number = number_of(event.id);
  Call& call = calls_[number];
  switch (event.kind) {
    case EventKind::kConnectResponse:
      SIM_REQUIRE(call.active && call.stage == Stage::kConnecting, "an answer to no question");
      call.peer_qpn = event.qp.qpn;
      call.peer_psn = event.qp.psn;
      later(manners_.think, [this, number] { answer_reply(number); });
      return;
    case EventKind::kEstablished:
      SIM_REQUIRE(!call.active && call.stage == Stage::kConnecting, "established twice");
      become_live(number);
      return;
    case EventKind::kRejected:
    case EventKind::kUnreachable:
      SIM_REQUIRE(call.stage == Stage::kConnecting, "failed when it was connected");
      sights_.add(event.kind == EventKind::kRejected ? Sights::kRejected : Sights::kUnreachable);
      on_end(number, Stage::kGone);
      return;
    case EventKind::kDisconnected:
    case EventKind::kDisconnectRequested:
      SIM_REQUIRE(call.stage != Stage::kOver, "ended twice");
      sights_.add(Sights::kDisconnected);
      on_end(number, Stage::kOver);
      return;
    case EventKind::kTimewaitExit:
      SIM_REQUIRE(call.stage == Stage::kOver, "timewait of what has not ended");
      call.stage = Stage::kGone;
      return;
    default: sim::violate("an event that does not belong here: %s", to_string(event.kind));
  }
}

void Station::on_end(uint32_t number, Stage stage) {
  calls_[number].stage = stage;
  calls_[number].broken = true;
  drop_qp(number);
}

// ---- what the programs do

void Station::answer_request(uint32_t number) {
  Call& call = calls_[number];
  if (call.stage != Stage::kConnecting) return;  // the peer has given up
  if (chance(manners_.reject_ppm)) {
    SIM_REQUIRE(manager_.reject(call.id, {}, world_.now()).has_value(), "reject() refused");
    return on_end(number, Stage::kGone);
  }
  call.our_psn = draw_psn(world_.random());
  make_qp(number);
  make_ready(number);
  const cm::AcceptParams params{.qp = {.qpn = call.our_qpn, .psn = call.our_psn}};
  SIM_REQUIRE(manager_.accept(call.id, params, world_.now()).has_value(), "accept() refused");
  if (!chance(manners_.hasty_ppm)) return;
  later(kMillisecond, [this, number] {
    if (manager_.state(calls_[number].id) != cm::State::kRepSent) return;
    sights_.add(Sights::kEndedBeforeReady);
    fail(number);
  });
}

void Station::answer_reply(uint32_t number) {
  Call& call = calls_[number];
  if (call.stage != Stage::kConnecting) return;
  if (chance(manners_.reject_ppm)) {
    SIM_REQUIRE(manager_.reject(call.id, {}, world_.now()).has_value(), "reject() refused");
    return on_end(number, Stage::kGone);
  }
  make_ready(number);
  SIM_REQUIRE(manager_.establish(call.id, {}, world_.now()).has_value(), "establish() refused");
  become_live(number);
}

void Station::become_live(uint32_t number) {
  Call& call = calls_[number];
  call.stage = Stage::kLive;
  sights_.add(Sights::kConnected);
  if (!call.has_qp) return;  // flushed meanwhile: its end is on the way
  call.to_send = static_cast<uint32_t>(world_.draw(0, kMostMessages));
  for (uint32_t i = 0; i < call.to_send; ++i) send_message(number, i);
  if (chance(manners_.stay_ppm)) return;
  later(manners_.life, [this, number] { end(number); });
}

void Station::end(uint32_t number) {
  Call& call = calls_[number];
  if (call.stage != Stage::kLive) return;
  if (!chance(manners_.destroy_ppm)) return fail(number);
  manager_.release(call.id, world_.now());
  on_end(number, Stage::kGone);
}

// As rdma_disconnect(): the queue pair first.
void Station::fail(uint32_t number) {
  Call& call = calls_[number];
  call.broken = true;
  drop_qp(number);
  SIM_REQUIRE(manager_.disconnect(call.id, {}, world_.now()).has_value(), "disconnect() refused");
}

void Station::watch_peers() {
  if (dead_) return;
  for (Call& call : calls_) {
    if (call.stage != Stage::kLive || !call.has_qp) continue;
    const Duration silence = world_.now() - world_.endpoint(host_).heard(call.our_qpn);
    if (silence < kIdle) continue;
    const bool asked = world_.endpoint(host_).ping(call.our_qpn);
    if (!asked || silence < kIdle + kPatience) continue;
    sights_.add(Sights::kPeerLost);
    SIM_REQUIRE(manager_.connection_lost(call.id, world_.now()).has_value(), "lost() refused");
  }
  arm();
}

void Station::release_all() {
  closing_ = true;
  for (uint32_t number = 0; number < calls_.size(); ++number) {
    Call& call = calls_[number];
    if (call.stage == Stage::kGone) continue;
    manager_.release(call.id, world_.now());
    on_end(number, Stage::kGone);
  }
  arm();
}

// ---- what the transport tells

void Station::on_send_done(uint32_t end, const Completion& completion) {
  if (dead_ || end == 0) return;
  const uint32_t number = end - 1;
  Call& call = calls_[number];
  if (completion.status == WcStatus::kSuccess) {
    const Call* const other = stations_(call.peer).find(call.peer_qpn, call.peer_psn);
    SIM_REQUIRE(completion.wr_id == call.completed, "sends completed out of order");
    ++call.completed;
    SIM_REQUIRE(other != nullptr && other->token == call.token && other->received >= call.completed,
                "a send completed that has not arrived");
    return;
  }
  if (completion.status == WcStatus::kFlushed) return;
  SIM_REQUIRE(completion.status == WcStatus::kRetryExceeded, "a send ended with: %s",
              transport::to_string(completion.status));
  sights_.add(Sights::kTransportFailed);
  call.broken = true;
  later(kMillisecond, [this, number] {
    if (calls_[number].stage == Stage::kLive) fail(number);
  });
}

void Station::on_receive_done(uint32_t end, const Completion& completion) {
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  if (end == 0) {
    const auto bytes = gsi_memory(slot);
    wire::Gid from;
    std::copy_n(bytes.data() + 8, from.bytes.size(), from.bytes.begin());
    if (!dead_) {
      manager_.on_mad(world_.node(host_).address(), from,
                      bytes.subspan(40, completion.byte_len - 40), world_.now());
      arm();
    }
    return post_gsi_receive(slot);
  }
  if (completion.status == WcStatus::kFlushed) return;
  SIM_REQUIRE(completion.status == WcStatus::kSuccess, "a receive ended with: %s",
              transport::to_string(completion.status));
  const uint32_t number = end - 1;
  Call& call = calls_[number];
  SIM_REQUIRE(completion.wr_id == call.received, "receives completed out of order");
  check_message(
      call, memory_of(call).subspan(size_t{call.received} * kMessageBytes, completion.byte_len));
  ++call.received;
  sights_.add(Sights::kMessage);
  if (dead_ || call.stage != Stage::kConnecting) return;
  later(kMillisecond, [this, number] {
    if (manager_.state(calls_[number].id) != cm::State::kRepSent) return;
    sights_.add(Sights::kEarlyData);
    SIM_REQUIRE(manager_.data_arrived(calls_[number].id, world_.now()).has_value(),
                "data_arrived() refused");
  });
}

// ---- what must hold when all is quiet

void Station::require_agreement() {
  for (const Call& call : calls_) {
    SIM_REQUIRE(call.stage != Stage::kConnecting, "host %u: neither connected nor failed", host_);
    SIM_REQUIRE(call.stage != Stage::kOver, "host %u: timewait without an end", host_);
    if (call.stage != Stage::kLive) continue;
    const Call* const other = stations_(call.peer).find(call.peer_qpn, call.peer_psn);
    SIM_REQUIRE(other != nullptr && other->stage == Stage::kLive && !stations_(call.peer).dead(),
                "host %u: connected to nobody (%s)", host_, call.active ? "asked" : "accepted");
    SIM_REQUIRE(other->peer_qpn == call.our_qpn && other->peer_psn == call.our_psn &&
                    other->token == call.token && other->active != call.active,
                "host %u: the ends disagree", host_);
    SIM_REQUIRE(!call.broken && call.completed == call.to_send && call.received == other->to_send,
                "host %u: a connection stands, and its messages did not arrive", host_);
  }
}

void Station::require_nothing_left() {
  SIM_REQUIRE(manager_.size() == 0 && manager_.half_open() == 0, "host %u: %zu entries are left",
              host_, manager_.size());
  SIM_REQUIRE(world_.endpoint(host_).qp_count() == 1, "host %u: queue pairs are left", host_);
  SIM_REQUIRE(world_.endpoint(host_).held_packets() == 0, "host %u: packets are held", host_);
}

}  // namespace verbena::cm_storm
