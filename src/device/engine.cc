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
#include "device/management_rules.h"
#include "link/clock.h"
#include "wire/icrc.h"

namespace verbena::device {
namespace {

// How often the poller's look is timed; odd, so that it is mostly one of the own family.
constexpr uint32_t kTimedLookEvery = 63;

// The kernel may refuse: a user has so much memory for this, and no more.
[[nodiscard]] bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
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
  link::HostLinkOptions host{.host = options.host, .kind = options.link};
  host.host.management = &management_rules();
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
  engine->connections_ = std::make_unique<Connections>(
      *engine, Connections::Parts{*engine->endpoint_, link, engine->random_}, options.node_guid,
      options.watch);
  engine->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  engine->epoll_all_.reset(::epoll_create1(EPOLL_CLOEXEC));
  engine->epoll_control_.reset(::epoll_create1(EPOLL_CLOEXEC));
  const int all = engine->epoll_all_.get();
  const int control = engine->epoll_control_.get();
  const int wake = engine->wake_.get();
  if (wake < 0 || all < 0 || control < 0 || !watch(all, wake) || !watch(control, wake) ||
      !watch(all, link.control_fd()) || !watch(control, link.control_fd()) ||
      !std::ranges::all_of(link.receive_fds(), [all](int fd) { return watch(all, fd); })) {
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
  if (link_ != nullptr) link_->abandon_in_child();
  if (connections_ != nullptr) connections_->abandon();
  wake_.reset();
  epoll_all_.reset();
  epoll_control_.reset();
  lock_wanted_.store(0);
  mutex_.unlock();
}

void Engine::set_taps(link::TransmitTap* transmit, link::ReceiveFilter* receive) {
  const std::lock_guard lock(mutex_);
  link_->set_taps(transmit, receive);
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
  return Qpn((uint32_t{link_->slot()} << 16) | (last_qpn_ & 0xffff));
}

wire::Psn Engine::draw_psn() {
  const Quiet quiet(*this);
  return wire::Psn(static_cast<uint32_t>(random_.next()));
}

void Engine::on_packet(const transport::InPacket& packet, Time now) {
  if (packet.view.bth.dest_qp == kGsiQpn) {
    return connections_->receive(packet.destination, packet.source, packet.view, now);
  }
  endpoint_->receive(packet, now);
}

uint32_t Engine::on_joined(const link::Joined& joined, link::PacketCheck& check, Time now) {
  return endpoint_->receive_run(
      joined.bytes, joined.segment, joined.source, joined.destination, now,
      [&check](uint32_t i, std::span<const uint8_t> packet) { return check.is_right(i, packet); });
}

uint32_t Engine::on_run(const wire::Run& run, std::span<const uint8_t> payload,
                        const wire::Gid& source, const wire::Gid& destination, bool ack_request,
                        Time now) {
  return endpoint_->receive_run(run, payload, source, destination, ack_request, now);
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
  if (link_->next_timer() <= now) link_->on_timer(now);
  const uint64_t sent_before = link_->transmit_counters().packets;
  if (acks == Acks::kSend) {
    batches_unacked_ = 0;
    endpoint_->finish_batch(now);
  } else {
    endpoint_->finish_but_acks(now);
  }
  if (connections_->next_timer() <= now) connections_->on_timer(now);
  // One pass for timers and queue pairs with more to send; what is left comes with the next.
  if (endpoint_->next_deadline() <= now) endpoint_->advance(now);
  stalled_ = endpoint_->next_deadline() == 0 && link_->transmit_counters().packets == sent_before;
  link_->flush();
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
  const bool more_likely = link_->expects_more() && ++batches_unacked_ < kBatchesPerAck;
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
  link_->send_management({.path = &path,
                          .headers = headers,
                          .payload = {&payload, 1},
                          .payload_bytes = static_cast<uint32_t>(payload.size()),
                          .copy_first = true});
}

void Engine::still_polling() {
  if (!sleeper_.load(std::memory_order_relaxed)) lease_.extend(clock());
}

bool Engine::has_work(Time now) {
  const bool blocked = stalled_ && !link_->room_again();
  return (blocked
              ? std::min({endpoint_->next_timer(), connections_->next_timer(), link_->next_timer()})
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
      link_->set_polling(true);
    }
  }
  const bool held = endpoint_->owes_acks();
  const size_t got = link_->receive(link::Look::kLikely, now);
  if (got == 0) {
    if (++poll_round_ % kTimedLookEvery == 0) lease_.on_empty_look(clock() - now);
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
