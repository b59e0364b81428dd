// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/relax.h"
#include "device/bounded_lock.h"
#include "device/counter_report.h"
#include "link/clock.h"
#include "wire/icrc.h"

namespace verbena::device {
namespace {

// How often the other address family's socket is looked at.
constexpr uint32_t kOtherFamilyEvery = 16;
// How often the poller's look is timed; odd, so that it is mostly one of the own family.
constexpr uint32_t kTimedLookEvery = 63;

// The kernel may refuse: a user has so much memory for this, and no more.
[[nodiscard]] bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

[[nodiscard]] bool watch(int epoll, const link::UdpSockets* sockets) {
  return sockets == nullptr || watch(epoll, sockets->receive.get());
}

[[nodiscard]] link::MembershipError system_error(const std::string& step, int code) {
  return {link::MembershipError::Kind::kSystem, step + ": " + std::strerror(code), code};
}

}  // namespace

Time Engine::clock() { return link::monotonic_now(); }

Engine::Engine(EventRouter& router) : router_(router) {}

Result<std::unique_ptr<Engine>, link::MembershipError> Engine::make(const EngineOptions& options,
                                                                    EventRouter& router) {
  std::unique_ptr<Engine> engine(new Engine(router));
  if (const int error = engine->random_.seed(); error != 0) {
    return fail(system_error("getrandom and /dev/urandom", error));
  }
  auto host = link::Membership::join(options.host, engine->random_);
  if (!host) return fail(host.error());
  engine->host_ = std::move(*host);
  link::Membership& member = *engine->host_;
  engine->port_counters_.emplace(member.shown_counters());
  engine->port_ = member.port();
  engine->this_host_only_ = !member.this_host_only().empty();
  memory::Domain::Options memory = options.memory;
  memory.repeats = &engine->repeats_;
  engine->memory_ = std::make_unique<memory::Domain>(engine->random_, memory);
  engine->transmitter_ =
      std::make_unique<link::UdpTransmitter>(member.ipv4(), member.ipv6(), member.port(), &member);
  engine->endpoint_ =
      std::make_unique<transport::Endpoint>(*engine->memory_, *engine->transmitter_, *engine,
                                            engine->random_, options.limits, options.tuning);
  engine->connections_ = std::make_unique<Connections>(
      *engine, Connections::Parts{*engine->endpoint_, member, engine->random_}, options.node_guid,
      options.watch);
  engine->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  engine->epoll_all_.reset(::epoll_create1(EPOLL_CLOEXEC));
  engine->epoll_control_.reset(::epoll_create1(EPOLL_CLOEXEC));
  const int all = engine->epoll_all_.get();
  const int control = engine->epoll_control_.get();
  const int wake = engine->wake_.get();
  if (wake < 0 || all < 0 || control < 0 || !watch(all, wake) || !watch(control, wake) ||
      !watch(all, member.fd()) || !watch(control, member.fd()) || !watch(all, member.ipv4()) ||
      !watch(all, member.ipv6())) {
    return fail(system_error("eventfd, epoll", errno));
  }
  engine->counters_file_ = options.counters_file;
  engine->notices_.set_quiet(options.quiet);
  return engine;
}

Result<void, link::MembershipError> Engine::start_helper() {
  try {
    helper_ = std::thread([this] { helper_main(); });
  } catch (const std::system_error& refused) {
    return fail(system_error("the device's thread", refused.code().value()));
  }
  return {};
}

Engine::~Engine() {
  if (helper_.joinable()) {
    stopping_.store(true);
    wake_helper();
    helper_.join();
    show_trouble(clock());
    report_counters();
  }
}

// Once.
void Engine::report_counters() {
  if (counters_file_.empty()) return;
  append_line(counters_file_, counter_line(*this));
  counters_file_.clear();
}

void Engine::abandon_in_child() {
  // The thread does not exist here; its handle must not be joined, nor destroyed while joinable.
  if (helper_.joinable()) helper_.detach();
  if (host_ != nullptr) host_->abandon_in_child();
  if (connections_ != nullptr) connections_->abandon();
  wake_.reset();
  epoll_all_.reset();
  epoll_control_.reset();
  lock_wanted_.store(0);
  mutex_.unlock();
}

const link::TransmitCounters& Engine::transmit_counters() const { return transmitter_->counters(); }

void Engine::set_taps(link::TransmitTap* transmit, link::ReceiveFilter* receive) {
  const std::lock_guard lock(mutex_);
  transmitter_->set_tap(transmit);
  filter_ = receive;
  filter_due_ = kNever;
}

// Goes round all numbers of this member before one comes again, in an order of its own: packets of
// a connection that ended must not find the next one.
Qpn Engine::draw_qpn() {
  if (qpn_step_ == 0) {
    const uint64_t drawn = random_.next();
    qpn_step_ = static_cast<uint32_t>(drawn) | 1;
    last_qpn_ = static_cast<uint32_t>(drawn >> 32);
  }
  last_qpn_ += qpn_step_;
  return Qpn((uint32_t{host_->slot()} << 16) | (last_qpn_ & 0xffff));
}

wire::Psn Engine::draw_psn() {
  const Quiet quiet(*this);
  return wire::Psn(static_cast<uint32_t>(random_.next()));
}

void Engine::note_family(bool ipv4) { (ipv4 ? ipv4_use_ : ipv6_use_).wanted = true; }

void Engine::on_consumed(const wire::Gid& source, uint16_t source_port, uint32_t cost) {
  host_->consumed(source, source_port, cost);
}

void Engine::on_datagram(const link::Datagram& datagram) {
  if (this_host_only_ && !host_->is_local(datagram.source)) {
    ++counters_.not_this_host;
    return;
  }
  if (!host_->route(datagram)) return;  // another member's
  if (filter_ == nullptr) return accept(datagram);
  filter_->pass(datagram, batch_time_, inner_);
}

uint32_t Engine::on_joined(const link::Datagram& rest, uint32_t segment) {
  if (this_host_only_ && !host_->is_local(rest.source)) return 0;
  if (rest.bytes.size() < wire::Bth::kBytes) return 0;
  if (rest.bytes[5] != host_->slot()) return host_->route_joined(rest, segment);
  if (filter_ != nullptr) return 0;
  icrcs_.aim(flow_of(rest), segment);
  return endpoint_->receive_run(
      rest.bytes, segment, rest.source, rest.destination, batch_time_,
      [&](uint32_t i, std::span<const uint8_t> packet) {
        return icrcs_.solve(packet, static_cast<uint16_t>(rest.index + i)).has_value();
      });
}

wire::IcrcFlow Engine::flow_of(const link::Datagram& datagram) const {
  return {.source = datagram.source,
          .destination = datagram.destination,
          .source_port = datagram.source_port,
          .destination_port = port_};
}

void Engine::accept(const link::Datagram& datagram) {
  const auto view = wire::parse(datagram.bytes);
  if (!view) {
    ++counters_.parse_errors[static_cast<size_t>(view.error())];
    return;
  }
  icrcs_.aim(flow_of(datagram), static_cast<uint32_t>(datagram.bytes.size()));
  if (!icrcs_.solve(datagram.bytes, datagram.index)) {
    ++counters_.bad_icrc;
    return;
  }
  if (view->bth.dest_qp == kGsiQpn) {
    return connections_->receive(datagram.destination, datagram.source, *view, batch_time_);
  }
  endpoint_->receive(
      {*view, datagram.source, datagram.destination, datagram.traffic_class, datagram.hop_limit},
      batch_time_);
}

size_t Engine::receive_batch(bool all_families, link::UdpReceiver::Ask ask) {
  size_t got = 0;
  if (all_families || is_looked_at(ipv4_use_, ipv6_use_)) {
    got += receive_family(host_->ipv4(), link::Family::kIpv4, ipv4_use_, ask);
  }
  if (all_families || is_looked_at(ipv6_use_, ipv4_use_)) {
    got += receive_family(host_->ipv6(), link::Family::kIpv6, ipv6_use_, ask);
  }
  return got;
}

size_t Engine::receive_family(const link::UdpSockets* sockets, link::Family family, FamilyUse& use,
                              link::UdpReceiver::Ask ask) {
  if (sockets == nullptr) return 0;
  const size_t got = receiver_.receive(sockets->receive.get(), family, *this, ask);
  use.empty_looks = got != 0 ? 0 : std::min(use.empty_looks + 1, FamilyUse::kQuiet);
  return got;
}

void Engine::lock() {
  const auto comes_soon = [this] {
    constexpr int kSpins = 100;
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return true;
      cpu_relax();
    }
    return false;
  };
  if (lock_wanted_.load(std::memory_order_relaxed) == 0 && comes_soon()) return;
  // One at a time: a thousand threads that spin and yield would keep the one that has the lock off
  // its core.
  const std::lock_guard alone(queue_);
  // A program that does nothing but call in would keep the lock from the helper for ever.
  constexpr int kGiveWay = 1000;
  for (int i = 0; i < kGiveWay && lock_wanted_.load(std::memory_order_relaxed) != 0; ++i) {
    ::sched_yield();
  }
  if (!comes_soon()) mutex_.lock();
}

void Engine::settle(Time now, Acks acks) {
  if (filter_ != nullptr) {
    batch_time_ = now;
    filter_due_ = filter_->release(now, inner_);
  }
  const uint64_t sent_before = transmitter_->counters().packets;
  if (acks == Acks::kSend) {
    batches_unacked_ = 0;
    endpoint_->finish_batch(now);
  } else {
    endpoint_->finish_but_acks(now);
  }
  if (connections_->next_timer() <= now) connections_->on_timer(now);
  // One pass for timers and queue pairs with more to send; what is left comes with the next.
  if (endpoint_->next_deadline() <= now) endpoint_->advance(now);
  stalled_ = endpoint_->next_deadline() == 0 && transmitter_->counters().packets == sent_before;
  transmitter_->flush();
  host_->settle();
  show_traffic();
  if (now >= trouble_due_) show_trouble(now);
  publish_completions();
}

void Engine::publish_completions() {
  for (CompletionQueue* const cq : to_publish_) {
    if (cq->publish()) sleeper_.store(false, std::memory_order_relaxed);
  }
  to_publish_.clear();
}

// After a caller posted or changed something.
void Engine::finish() {
  const Time now = clock();
  settle(now);
  last_activity_ = now;
  // The helper sleeps until something due; make sure that this is soon enough.
  // While somebody polls, the helper need only come when that ends.
  Time deadline = next_deadline();
  if (!sleeper_.load(std::memory_order_relaxed)) {
    lease_.on_post(now);
    if (lease_.held(now)) deadline = std::max(deadline, lease_.end());
  }
  have_helper_by(deadline);
}

void Engine::have_helper_by(Time deadline) {
  if (alarm_.move_up(deadline)) wake_helper();
}

void Engine::settle_received(Time now, bool held) {
  // A program that takes one message after the other gives no answer to each: they share an ACK,
  // as long as it takes them quickly.
  constexpr uint32_t kBatchesPerAck = 8;
  constexpr Duration kHeldAtMost = 30 * kMicrosecond;
  if (!held) acks_held_since_ = now;
  if (to_publish_.empty()) return settle(now, acks_of_batch());
  const bool hold = ++batches_unacked_ < kBatchesPerAck && now - acks_held_since_ < kHeldAtMost;
  settle(now, hold ? Acks::kHold : Acks::kSend);
}

Engine::Acks Engine::acks_of_batch() {
  // So much lies in a receive buffer at once; whoever sends it may send more in the meantime.
  constexpr uint32_t kBatchesPerAck = 4;
  const bool more_likely = receiver_.reads_large() && ++batches_unacked_ < kBatchesPerAck;
  return more_likely ? Acks::kHold : Acks::kSend;
}

void Engine::wake_helper() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Engine::armed() {
  lease_.on_armed();
  sleeper_.store(true, std::memory_order_relaxed);
  // The helper must watch the sockets from now on, unless a thread in wait() does.
  if (!helper_watching_.load(std::memory_order_relaxed) && !alarm_.waited(clock())) {
    lease_.give_up();
    wake_helper();
  }
}

void Engine::shut_down(Duration bound) {
  ++lock_wanted_;
  const std::unique_lock lock = lock_within(mutex_, bound);
  --lock_wanted_;
  if (!lock.owns_lock()) return;
  const Time now = clock();
  connections_->leave(now);
  settle(now);
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
  transmitter_->send({.path = &path,
                      .headers = headers,
                      .payload = {&payload, 1},
                      .payload_bytes = static_cast<uint32_t>(payload.size()),
                      .copy_first = true});
}

void Engine::still_polling() {
  if (!sleeper_.load(std::memory_order_relaxed)) lease_.extend(clock());
}

bool Engine::has_work(Time now) {
  const bool blocked = stalled_ && !host_->room_again();
  return (blocked ? std::min({endpoint_->next_timer(), connections_->next_timer(), filter_due_})
                  : next_deadline()) <= now;
}

void Engine::poll() {
  if (lock_wanted_.load(std::memory_order_relaxed) != 0) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const Time now = clock();
  if (sleeper_.load(std::memory_order_relaxed) && lease_.on_look_while_armed(now)) {
    sleeper_.store(false, std::memory_order_relaxed);
  }
  if (!sleeper_.load(std::memory_order_relaxed)) {
    lease_.on_poll(now);
    if (!polling_) {
      polling_ = true;
      host_->set_polling(true);
    }
  }
  batch_time_ = now;
  const bool held = endpoint_->owes_acks();
  const size_t got =
      receive_batch(++poll_round_ % kOtherFamilyEvery == 0, link::UdpReceiver::Ask::kAsExpected);
  if (got == 0) {
    if (poll_round_ % kTimedLookEvery == 0) lease_.on_empty_look(clock() - now);
    host_->found_empty(now);
    if (held || has_work(now)) settle(now);
    return;
  }
  ++counters_.poller_batches;
  last_activity_ = now;
  settle_received(now, held);
  if (!sleeper_.load(std::memory_order_relaxed)) lease_.on_batch(clock());
  // Should this program not come back: timers, and ACKs that are held.
  const Time lease_end = std::max(lease_.end(), now);
  have_helper_by(endpoint_->owes_acks() ? lease_end : std::max(next_deadline(), lease_end));
}

}  // namespace verbena::device
