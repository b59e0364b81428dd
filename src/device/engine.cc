// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/secret_file.h"
#include "device/connections.h"
#include "device/counter_report.h"
#include "device/management_rules.h"
#include "link/udp_transmitter.h"

namespace verbena::device {
namespace {

[[nodiscard]] link::MembershipError system_error(const std::string& step, int code) {
  return {link::MembershipError::Kind::kSystem, step + ": " + std::strerror(code), code};
}

}  // namespace

Engine::Engine(EventRouter& router) : router_(router) { lock_.set_bell(*this); }

Result<std::unique_ptr<Engine>, link::MembershipError> Engine::make(const EngineOptions& options,
                                                                    EventRouter& router) {
  // Posting fills the room of inline data again, while what lay there is still to be flushed.
  VERBENA_CHECK(options.limits.max_inline <= link::UdpTransmitter::kCopyBelow);
  std::unique_ptr<Engine> engine(new Engine(router));
  engine->lock_.assert_held();  // nobody else has it yet
  if (const int error = engine->random_.seed(); error != 0) {
    return fail(system_error("getrandom and /dev/urandom", error));
  }
  link::HostLinkOptions host{.host = options.host, .kind = options.link};
  host.host.management = &management_rules();
  if (!options.secret_file.empty()) {
    const auto file = read_secret(options.secret_file, SecretSource::kFile);
    if (!file)
      return fail(
          link::MembershipError{link::MembershipError::Kind::kSystem, file.error(), EACCES});
    const auto* const bytes = reinterpret_cast<const uint8_t*>(file->secret.data());
    host.key = wire::tag_key_of({bytes, file->secret.size()});
  }
  auto joined = link::HostLink::join(host, engine->random_, *engine);
  if (!joined) return fail(joined.error());
  engine->link_ = std::move(*joined);
  link::HostLink& link = *engine->link_;
  engine->port_counters_.emplace(link.shown_counters());
  memory::Domain::Options memory = options.memory;
  memory.repeats = &engine->repeats_;
  engine->memory_ = std::make_unique<memory::Domain>(engine->random_, memory);
  engine->endpoint_ = std::make_unique<transport::Endpoint>(
      *engine->memory_, link, *engine, engine->random_, options.limits, options.tuning);
  engine->endpoint_->set_receive_room(link.receive_room());
  engine->connections_ = std::make_unique<Connections>(
      *engine, Connections::Parts{*engine->endpoint_, link, engine->random_}, options.node_guid,
      options.watch);
  if (const int error = engine->world_.open(link); error != 0) {
    return fail(system_error("eventfd, epoll", error));
  }
  engine->counters_file_ = options.counters_file;
  engine->notices_.set_quiet(options.quiet);
  if (const std::string& held = link.name_held(); !held.empty()) {
    engine->notices_.say(Notices::Kind::kNameHeld, "%s", held.c_str());
  }
  return engine;
}

Result<void, link::MembershipError> Engine::start_helper() {
  const int error = helper_.start([this] { progress_.run_helper(); });
  if (error != 0) return fail(system_error("the device's thread", error));
  return {};
}

Engine::~Engine() {
  const bool started = helper_.started();
  if (started) {
    progress_.stop();
    helper_.join();
  }
  lock_.close();
  if (!started) return;
  show_trouble(clock());
  report_counters();
}

// Once.
void Engine::report_counters() {
  if (counters_file_.empty()) return;
  append_line(counters_file_, counter_line(*this));
  counters_file_.clear();
}

void Engine::before_fork() {
  lock_.lock_first();
  forking_ = true;
  lock_.await_guests();  // who ring: they do not wait for the lock
  link_->before_fork();
}

void Engine::after_fork_in_parent() {
  link_->after_fork_in_parent();
  forking_ = false;
  lock_.unlock();
}

void Engine::abandon_in_child() {
  forking_ = false;
  helper_.abandon();
  if (link_ != nullptr) link_->abandon_in_child();
  if (connections_ != nullptr) connections_->abandon();
  world_.close();
  lock_.unlock_in_child();
}

cm::Service& Engine::connections() { return *connections_; }

const cm::Counters& Engine::manager_counters() const { return connections_->manager_counters(); }

void Engine::set_taps(link::TransmitTap* transmit, link::ReceiveFilter* receive) {
  const Quiet quiet(*this);
  link_->set_taps(transmit, receive);
}

// Goes round all numbers of this member before one comes again, for packets of a connection that
// ended must not find the next one; and in an order that peers cannot tell from their own.
Qpn Engine::draw_qpn() {
  if (!qpns_) qpns_.emplace(random_);
  return Qpn(link_->first_qpn().value | qpns_->next());
}

wire::Psn Engine::draw_psn() {
  const Quiet quiet(*this);
  return wire::Psn(static_cast<uint32_t>(random_.next()));
}

void Engine::on_packet(const transport::InPacket& packet, Time now) {
  lock_.assert_held();
  if (packet.view.bth.dest_qp == kGsiQpn) {
    return connections_->receive(packet.destination, packet.source, packet.view, now);
  }
  endpoint_->receive(packet, now);
}

uint32_t Engine::on_joined(const link::Joined& joined, link::PacketCheck& check, Time now) {
  lock_.assert_held();
  return endpoint_->receive_run(
      joined.bytes, joined.segment, joined.source, joined.destination, joined.traffic_class, now,
      [&check](uint32_t i, std::span<const uint8_t> packet) { return check.is_right(i, packet); });
}

uint32_t Engine::on_run(const wire::Run& run, std::span<const uint8_t> payload,
                        const wire::Gid& source, const wire::Gid& destination, bool ack_request,
                        Time now) {
  lock_.assert_held();
  return endpoint_->receive_run(run, payload, source, destination, ack_request, now);
}

void Engine::settle(Time now, Acks acks) {
  lock_.assert_held();
  if (link_->next_timer() <= now) link_->on_timer(now);
  const uint64_t sent_before = link_->transmit_counters().packets;
  if (acks == Acks::kSend) {
    endpoint_->finish_batch(now);
  } else {
    endpoint_->finish_but_acks(now);
  }
  Time connections_due = connections_->next_timer();
  if (connections_due <= now) {
    connections_->on_timer(now);
    connections_due = connections_->next_timer();
  }
  // One pass for timers and queue pairs with more to send; what is left comes with the next.
  Time endpoint_due = endpoint_->next_deadline();
  if (endpoint_due <= now) {
    endpoint_->advance(now);
    endpoint_due = endpoint_->next_deadline();
  }
  stalled_ = endpoint_due == 0 && link_->transmit_counters().packets == sent_before;
  link_->flush();
  quiet_until_ = earliest(endpoint_due, connections_due);
  show_traffic();
  if (now >= trouble_due_) show_trouble(now);
  // Nothing else may happen that would make the helper look.
  if (has_unsaid_losses()) world_.wake_helper();
  publish_completions();
}

void Engine::publish_completions() {
  for (CompletionQueue* const cq : to_publish_) {
    if (cq->publish()) progress_.event_raised();
  }
  to_publish_.clear();
}

void Engine::shut_down(Duration bound) {
  if (!lock_.try_first_within(bound)) return;
  const EngineHeld held(lock_, std::adopt_lock);
  const Time now = clock();
  send_posted();
  connections_->leave(now);
  progress_.settle(now);
  link_->finish();
  show_trouble(now);
  report_counters();
}

void Engine::send_management(const wire::Gid& source, const wire::Gid& destination, uint32_t qkey,
                             std::span<const uint8_t> payload) {
  // A peer that is told of the end must know before what arrived.
  if (endpoint_->owes_acks()) endpoint_->finish_batch(clock());
  const transport::Path path = router_.path_between(source, destination);
  std::array<uint8_t, wire::Bth::kBytes + wire::Deth::kBytes> headers;
  wire::Bth bth;
  bth.opcode = wire::opcode_byte(wire::Service::kUd, wire::Op::kSendOnly);
  bth.dest_qp = kGsiQpn;
  bth.psn = management_psn_ = management_psn_.next();
  bth.write(headers.data());
  wire::Deth{qkey, 0, kGsiQpn}.write(headers.data() + wire::Bth::kBytes);
  link_->send_management({.path = &path,
                          .headers = headers,
                          .payload = {&payload, 1},
                          .payload_bytes = static_cast<uint32_t>(payload.size()),
                          .copy_first = true});
}

Time Engine::next_deadline() {
  lock_.assert_held();
  if (quiet_until_ == 0) {
    quiet_until_ = earliest(endpoint_->next_deadline(), connections_->next_timer());
  }
  return quiet_until_;
}

Time Engine::earliest(Time endpoint_due, Time connections_due) const {
  return std::min({endpoint_due, connections_due, link_->next_timer()});
}

bool Engine::has_work(Time now) {
  lock_.assert_held();
  const bool blocked = stalled_ && !link_->room_again();
  return (blocked ? earliest(endpoint_->next_timer(), connections_->next_timer())
                  : next_deadline()) <= now;
}

ProgressWork::Looked Engine::look(Time now) {
  lock_.assert_held();
  Looked looked{.owed_acks = endpoint_->owes_acks()};
  looked.pieces = link_->receive(link::Look::kLikely, now);
  if (looked.pieces == 0) looked.has_work = has_work(now);
  return looked;
}

void Engine::on_ready(Time now, bool readable) {
  lock_.assert_held();
  link_->on_ready(now, readable);
  if (const uint32_t changes = link_->address_changes(); changes != seen_address_changes_) {
    seen_address_changes_ = changes;
    router_.on_addresses_changed();
  }
}

}  // namespace verbena::device
