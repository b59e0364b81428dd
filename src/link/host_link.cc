// SPDX-License-Identifier: Apache-2.0
#include "link/host_link.h"

#include <algorithm>
#include <cerrno>

#include "base/endian.h"
#include "link/steering.h"

namespace verbena::link {
namespace {

// Where the messages of a program all go through rings, a look at the sockets costs many times as
// much as one at the rings. Sockets that were found empty so often in a row are looked at less.
constexpr uint32_t kQuiet = 256;
constexpr uint32_t kQuietEvery = 8;
// While the rings bring something.
constexpr uint32_t kBusyEvery = 16;

[[nodiscard]] Qpn qpn_of(const transport::OutPacket& packet) {
  return Qpn(load_be24(packet.headers.data() + kSlotByte));
}

}  // namespace

Result<std::unique_ptr<HostLink>, MembershipError> HostLink::join(const HostLinkOptions& options,
                                                                  RandomSource& random,
                                                                  Arrivals& arrivals) {
  MembershipOptions host = options.host;
  host.takes_rings = options.kind != LinkKind::kUdp;
  auto joined = Membership::join(host, random);
  if (!joined) return fail(joined.error());
  std::unique_ptr<HostLink> link(new HostLink(std::move(*joined), options.kind, arrivals));
  if (options.key) {
    link->seal_.emplace(link->host_->addresses(), *options.key);
    link->udp_.out().set_seal(&*link->seal_);
    link->intake_.set_seal(&*link->seal_);
  }
  if (host.takes_rings && link->shared_ == nullptr) {
    return fail(MembershipError{MembershipError::Kind::kSystem, "eventfd", errno});
  }
  return link;
}

HostLink::HostLink(std::unique_ptr<Membership> host, LinkKind kind, Arrivals& arrivals)
    : host_(std::move(host)), kind_(kind), intake_(*host_, arrivals), udp_(*host_) {
  for (const UdpSockets* const sockets : {host_->ipv4(), host_->ipv6()}) {
    if (sockets != nullptr) receive_fds_[receive_fd_count_++] = sockets->receive.get();
  }
  if (kind_ == LinkKind::kUdp) return;
  shared_ = SharedLink::make({.host = *host_,
                              .intake = intake_,
                              .sent = udp_.out().counters(),
                              .received = udp_.receive_counters(),
                              .otherwise = kind_ == LinkKind::kShared ? nullptr : this});
  if (shared_ != nullptr) receive_fds_[receive_fd_count_++] = shared_->fd();
}

// --- sending

void HostLink::lose(uint32_t packets) {
  TransmitCounters& counters = udp_.out().counters();
  counters.errors += packets;
  counters.without_ring += packets;
  counters.last_error = EHOSTUNREACH;
}

void HostLink::send(const transport::OutPacket& packet) {
  if (auto* const ring = ring_to(packet.path->destination, qpn_of(packet))) {
    return shared_->send(*ring, packet);
  }
  if (is_barred(*packet.path)) return lose(1);
  udp_.out().send(packet);
}

void HostLink::send_run(const transport::OutRun& run) {
  if (auto* const ring = ring_to(run.path->destination, run.first.dest_qp)) {
    return shared_->send_run(*ring, run);
  }
  if (is_barred(*run.path)) return lose(run.packets);
  udp_.out().send_run(run);
}

bool HostLink::has_room_towards(const transport::Path& path, Qpn qpn) const {
  if (auto* const ring = ring_to(path.destination, qpn)) return shared_->has_room(*ring);
  return udp_.out().has_room_towards(path, qpn);
}

uint32_t HostLink::room_for(const transport::Path& path, Qpn qpn, uint32_t packet_bytes,
                            uint32_t wanted) const {
  if (auto* const ring = ring_to(path.destination, qpn)) {
    return shared_->room_for(*ring, packet_bytes, wanted);
  }
  return udp_.out().room_for(path, qpn, packet_bytes, wanted);
}

bool HostLink::paces(const transport::Path& path, Qpn qpn) const {
  return udp_.out().paces(path, qpn);  // every member of this host is known
}

bool HostLink::is_unread(const transport::Path& path, Qpn qpn) const {
  if (auto* const ring = ring_to(path.destination, qpn)) return SharedLink::is_unread(*ring);
  return udp_.out().is_unread(path, qpn);
}

// To a process of this host by the way that its data takes: what ends a connection must not
// overtake that. Where the steering has to find it, it needs a hint.
void HostLink::send_management(const transport::OutPacket& packet) {
  constexpr size_t kHintAt = kHintByte - wire::Bth::kBytes - wire::Deth::kBytes;
  const std::span<const uint8_t> message =
      packet.payload.empty() ? std::span<const uint8_t>{} : packet.payload.front();
  const auto target = host_->target_of(packet.path->destination, message);
  if (target && shared_ != nullptr) {
    const Qpn any_of_it = first_qpn_of(target->slot);
    if (auto* const ring = ring_to(packet.path->destination, any_of_it)) {
      return shared_->send(*ring, packet);
    }
  }
  std::array<uint8_t, 256> hinted;
  if (!target || !target->is_request || message.size() > hinted.size() ||
      message.size() <= kHintAt) {
    return udp_.out().send(packet);
  }
  std::ranges::copy(message, hinted.begin());
  hinted[kHintAt] = target->slot;
  const auto payload = std::span<const uint8_t>(hinted).first(message.size());
  transport::OutPacket told = packet;
  told.payload = {&payload, 1};
  told.copy_first = true;
  udp_.out().send(told);
}

void HostLink::flush() {
  udp_.out().flush();
  host_->settle();
  if (shared_ != nullptr) shared_->flush();
}

void HostLink::finish() {
  if (shared_ != nullptr) shared_->withdraw_all();
  flush();
}

bool HostLink::room_again() {
  return host_->room_again() || (shared_ != nullptr && shared_->room_again());
}

// --- receiving

inline void HostLink::note_sockets(size_t got) {
  may_have_left_ = may_have_left_ || udp_.may_have_left();
  if (got != 0) expects_more_ = udp_.expects_more();
}

inline size_t HostLink::receive_from_rings(Time now) {
  intake_.set_time(now);
  const size_t got = shared_ == nullptr ? 0 : shared_->receive(now);
  may_have_left_ = got != 0;
  if (got != 0) expects_more_ = shared_->expects_more();
  return got;
}

inline size_t HostLink::receive_from_sockets(Look look, size_t from_rings) {
  if (look == Look::kLikely && shared_ != nullptr && shared_->has_rings()) {
    const uint32_t every = from_rings != 0 ? kBusyEvery : empty_ < kQuiet ? 1 : kQuietEvery;
    if (++skipped_ < every) return 0;
  }
  skipped_ = 0;
  const size_t got = udp_.receive(look, intake_);
  note_sockets(got);
  empty_ = got != 0 ? 0 : std::min(empty_ + 1, kQuiet);
  return got;
}

size_t HostLink::receive(Look look, Time now) {
  const size_t from_rings = receive_from_rings(now);
  const size_t got = from_rings + receive_from_sockets(look, from_rings);
  if (got != 0) return got;
  host_->found_nothing();
  if (!host_->wants_look(now)) return 0;
  const size_t more = look_at_sockets(now);
  note_sockets(more);
  if (more != 0) empty_ = 0;
  return more;
}

size_t HostLink::receive_ready(ReadyFds ready, Time now) {
  // Who waits for the sockets to be empty wants to hear it of them.
  if (host_->awaits_empty()) return receive(Look::kAll, now);
  const size_t from_rings = receive_from_rings(now);
  // In the order of receive_fds().
  const size_t second = host_->ipv4() == nullptr ? 0 : 1;
  const bool ipv4 = second != 0 && ready[0];
  const bool ipv6 = host_->ipv6() != nullptr && ready[second];
  const size_t from_sockets = udp_.receive_ready(ipv4, ipv6, intake_);
  note_sockets(from_sockets);
  if (from_sockets != 0) empty_ = 0;
  // They need not be empty: senders go on as soon as something is read, and before.
  if (!udp_.may_have_left()) host_->found_nothing();
  return from_rings + from_sockets;
}

// While the sockets bring something they are asked with each look.
bool HostLink::is_quiet() const {
  return shared_ != nullptr && empty_ == kQuiet && shared_->has_rings() && shared_->is_quiet();
}

void HostLink::on_ready(Time now, bool readable) {
  intake_.set_time(now);
  if (readable) {
    host_->on_ready(intake_);
    if (shared_ != nullptr) shared_->forget_way();
  }
  if (now >= host_->next_look() && look_at_sockets(now) != 0) host_->put_off_look(now);
  // A thread that receives may be asleep until somebody sends, who waits for this room.
  constexpr int kMostBatches = 16;
  for (int i = 0; i < kMostBatches && host_->awaits_empty(); ++i) {
    (void)look_at_sockets(now);
  }
}

size_t HostLink::look_at_sockets(Time now) {
  host_->begin_look();
  const size_t got = udp_.receive(Look::kAll, intake_);
  if (got == 0) host_->found_empty(now);
  return got;
}

// --- sleeping

bool HostLink::prepare_sleep() {
  return !host_->awaits_empty() && (shared_ == nullptr || shared_->prepare_sleep());
}

void HostLink::woke(ReadyFds ready) {
  if (shared_ != nullptr && ready[receive_fd_count_ - 1]) shared_->woke();
}

Time HostLink::next_timer() const {
  const Time own = std::min(intake_.filter_due(), host_->next_look());
  return shared_ == nullptr ? own : std::min(own, shared_->next_timer());
}

void HostLink::on_timer(Time now) {
  if (intake_.filters()) intake_.release(now);
  if (shared_ != nullptr) shared_->on_timer(now);
}

void HostLink::set_taps(TransmitTap* transmit, ReceiveFilter* receive) {
  udp_.out().set_tap(transmit);
  intake_.set_filter(receive);
  if (shared_ != nullptr) shared_->set_tap(transmit);
}

void HostLink::abandon_in_child() {
  if (shared_ != nullptr) shared_->abandon_in_child();
  host_->abandon_in_child();
}

}  // namespace verbena::link
