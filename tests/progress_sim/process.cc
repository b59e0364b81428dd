// SPDX-License-Identifier: Apache-2.0
#include "progress_sim/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::progress_sim {
namespace {

constexpr uint32_t kEntries = 4096;
// Of one peer, before the others have their turn.
constexpr int kMostPerTurn = 16;
constexpr Duration kAckAgain = kMillisecond;
constexpr uint32_t kAckCost = 1'000;
constexpr uint32_t kDataCost = 5'000;

const transport::Path kPath{};

}  // namespace

Process::Process(Scheduler& scheduler, Host& host, uint8_t slot, uint32_t id, Report report)
    : scheduler_(scheduler),
      host_(host),
      slot_(slot),
      id_(id),
      report_(std::move(report)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      membership_(host, slot),
      link_(link::SharedLink::make({.host = membership_,
                                    .intake = *this,
                                    .sent = sent_packets_,
                                    .received = received_packets_})),
      ledger_(host.table(), slot),
      sent_(*this, kEntries, &sent_channel_),
      received_(*this, kEntries, &received_channel_),
      progress_(lock_, *this, *this) {
  for (Peer& peer : peers_) {
    peer.by_ring = scheduler.random().below(2) != 0;
    peer.qpn = next_qpn();
  }
  ledger_.start_afresh();
  host.join(slot);
  incarnation_ = host.incarnation(slot);
  look_at_members();
}

Process::~Process() = default;

// --- threads of the program

bool Process::post(uint8_t peer, uint32_t count, uint32_t bytes) {
  lock_.lock();
  last_traffic_ = clock();
  look_at_members();
  Peer& to = peers_[peer];
  const bool there = (to.incarnation & 1) != 0;
  if (there) {
    to.posted += count;
    for (uint32_t i = 0; i < count; ++i) to.bytes.push_back(bytes);
  }
  progress_.finish(clock());
  lock_.unlock();
  return there;
}

uint32_t Process::poll(device::CompletionQueue& cq) {
  told_ = true;
  const uint64_t gone_before = destroyed_.size();
  std::array<transport::Completion, 16> out;
  uint32_t got = cq.poll(out);
  if (got != 0) {
    progress_.still_polling();
  } else {
    progress_.poll();
    got = cq.poll(out);
  }
  for (uint32_t i = 0; i < got; ++i) {
    const auto gone = destroyed_.find(out[i].qpn.value);
    if (gone != destroyed_.end() && gone->second <= gone_before) {
      report_("a queue pair that is gone has a completion");
    }
  }
  return got;
}

void Process::arm(device::CompletionQueue& cq) {
  ++arming_;
  told_ = false;
  if (!cq.arm(false)) progress_.armed();
  --arming_;
}

void Process::wait(device::CompletionChannel& channel) {
  device::CompletionQueue* cq = nullptr;
  ++waiting_;
  while (progress_.wait(channel, cq) == EINTR) {}
  --waiting_;
  left_ = clock();
}

void Process::wait_for_descriptor(device::CompletionChannel& channel) {
  const int fd = channel.fd();
  ++on_their_own_;
  check_sleep_on(channel);
  (void)scheduler_.sleep({&fd, 1}, kNever);
  --on_their_own_;
  wait(channel);
}

// --- peers

void Process::look_at_members() {
  const uint32_t generation = membership_.generation();
  if (generation == seen_generation_) return;
  seen_generation_ = generation;
  ledger_.refresh();
  for (uint8_t slot = 1; slot < kPeers; ++slot) {
    Peer& peer = peers_[slot];
    const uint32_t incarnation = membership_.incarnation(slot);
    if (incarnation == peer.incarnation) continue;
    lose(peer);
    peer = {.incarnation = incarnation, .by_ring = peer.by_ring, .qpn = peer.qpn};
  }
}

// What was posted to it and not acknowledged completes, with an error.
void Process::lose(Peer& peer) {
  for (; peer.acked < peer.posted; ++peer.acked) {
    sent_.push({.status = transport::WcStatus::kRetryExceeded, .qpn = peer.qpn});
  }
  peer = {.incarnation = peer.incarnation,
          .by_ring = peer.by_ring,
          .qpn = peer.qpn,
          .qp = peer.qp,
          .peer_qp = peer.peer_qp,
          .owes_word = peer.owes_word,
          .unannounced = peer.unannounced};
}

bool Process::has_more() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return peer.sent < peer.posted; });
}

bool Process::owes_acks() const {
  return std::ranges::any_of(
      peers_, [](const Peer& peer) { return peer.ack_sent < peer.received || peer.owes_word; });
}

// --- sending

bool Process::send(uint8_t slot, Peer& peer, Header header, uint32_t bytes) {
  header.from = slot_;
  header.from_incarnation = incarnation_;
  header.to_incarnation = peer.incarnation;
  header.from_qp = peer.qp;
  header.to_qp = peer.peer_qp;
  if (!peer.by_ring) return send_datagram(slot, header);
  auto* const ring = link_->way_to(slot);
  if (ring == nullptr) return true;  // it is gone, and noticed soon
  static const std::array<uint8_t, 4096> kPayload{};
  const std::span<const uint8_t> payload(kPayload.data(), bytes);
  const uint64_t before = sent_packets_.to_unresponsive;
  link_->send(*ring, {.path = &kPath,
                      .headers = {reinterpret_cast<const uint8_t*>(&header), sizeof header},
                      .payload = {&payload, bytes == 0 ? size_t{0} : size_t{1}},
                      .payload_bytes = bytes});
  if (sent_packets_.to_unresponsive != before) return false;
  ++peer.unannounced;
  return true;
}

bool Process::send_datagram(uint8_t slot, Header header) {
  if (abandoned_) return true;  // there are no sockets
  Host::Member& to = host_.member(slot);
  header.cost = header.is_ack ? kAckCost : kDataCost;
  ledger_.spend(slot, header.cost);
  ++sent_packets_.packets;
  // One that is gone, and not noticed yet, takes anything.
  const bool there = to.alive && host_.incarnation(slot) == header.to_incarnation;
  if (there && !header.is_ack) to.in_flight += header.cost;
  if (to.in_flight > Host::kBudget) report_("more is on its way than there is room for");
  return ::write(to.send.get(), &header, sizeof header) == sizeof header || !there;
}

bool Process::send_data(uint8_t slot, Peer& peer) {
  if (peer.by_ring) {
    auto* const ring = link_->way_to(slot);
    if (ring != nullptr && !link_->has_room(*ring)) return false;
  } else if (!ledger_.available(slot)) {
    return false;
  }
  if (!send(slot, peer, {.sequence = peer.sent}, peer.bytes.front())) {
    report_("a message found no room that there was");
    return false;
  }
  ++peer.sent;
  peer.bytes.pop_front();
  return true;
}

void Process::send_more() {
  for (uint8_t slot = 1; slot < kPeers; ++slot) {
    Peer& peer = peers_[slot];
    for (int i = 0; i < kMostPerTurn && peer.sent < peer.posted; ++i) {
      if (!send_data(slot, peer)) break;
    }
  }
}

void Process::send_acks() {
  ack_again_ = kNever;
  for (uint8_t slot = 1; slot < kPeers; ++slot) {
    Peer& peer = peers_[slot];
    if (peer.ack_sent == peer.received && !peer.owes_word) continue;
    const uint64_t received = peer.received;
    if (send(slot, peer, {.sequence = received, .is_ack = true}, 0)) {
      peer.ack_sent = received;
      peer.owes_word = false;
    } else {
      ack_again_ = clock() + kAckAgain;
    }
  }
}

// --- receiving

size_t Process::receive(link::Look, Time now) { return receive_ready(link::kAllReady, now); }

// As HostLink has it.
size_t Process::receive_ready(link::ReadyFds ready, Time now) {
  look_at_members();
  const size_t from_rings = link_->receive(now);
  may_have_left_ = from_rings != 0;
  const bool asked = ready[kDatagrams] || ledger_.awaits_empty();
  return from_rings + (asked ? receive_datagrams(now) : 0);
}

size_t Process::receive_datagrams(Time now) {
  std::array<Header, 16> batch;
  const ssize_t got = ::read(host_.member(slot_).receive.get(), batch.data(), sizeof batch);
  if (got <= 0) ledger_.found_empty(now);
  const size_t count = got <= 0 ? 0 : static_cast<size_t>(got) / sizeof(Header);
  if (count == batch.size()) may_have_left_ = true;
  for (size_t i = 0; i < count; ++i) {
    const Header& header = batch[i];
    if (header.to_incarnation == incarnation_ && !header.is_ack) {
      host_.member(slot_).in_flight -= header.cost;
    }
    ledger_.consumed(header.from, header.cost);
    take(header);
  }
  for (const uint8_t slot : ledger_.to_wake()) membership_.wake(slot);
  ledger_.to_wake().clear();
  received_packets_.packets += count;
  return count;
}

void Process::on_ring_packet(const link::RingPacket& packet, Time) {
  Header header;
  if (packet.headers.size() != sizeof header) return report_("a record has a wrong length");
  std::memcpy(&header, packet.headers.data(), sizeof header);
  if (header.to_incarnation == incarnation_) ++host_.member(slot_).read;
  take(header);
}

void Process::take(const Header& header) {
  last_traffic_ = clock();
  look_at_members();
  Peer& peer = peers_[header.from];
  // Of one that died, or for one.
  if (header.from_incarnation != peer.incarnation || header.to_incarnation != incarnation_) return;
  if (!is_for_this_one(header, peer)) return;
  if (header.is_ack) {
    if (header.sequence > peer.sent) return report_("what was not sent is acknowledged");
    for (; peer.acked < header.sequence; ++peer.acked) sent_.push({.qpn = peer.qpn});
    return;
  }
  if (header.sequence != peer.received) return report_("a message is lost, or came twice");
  ++peer.received;
  ++in_memory_;
  queue_for(header.sequence).push({.qpn = peer.qpn});
}

// --- ProgressWork

device::ProgressWork::Looked Process::look(Time now) {
  Looked looked{.owed_acks = owes_acks()};
  looked.pieces = receive(link::Look::kLikely, now);
  if (looked.pieces == 0) looked.has_work = has_work(now);
  return looked;
}

// Sockets are looked at each time.
bool Process::is_quiet() const {
  return !stalled_ && !owes_acks() && link_->has_rings() && link_->is_quiet();
}

void Process::settle(Time now, device::Acks acks) {
  look_at_members();
  if (link_->next_timer() <= now) link_->on_timer(now);
  const uint64_t before = sent_packets_.packets;
  if (acks == device::Acks::kSend) send_acks();
  send_more();
  stalled_ = has_more() && sent_packets_.packets == before;
  ledger_.settle();
  link_->flush();
  for (uint8_t slot = 1; slot < kPeers; ++slot) {
    Peer& peer = peers_[slot];
    if (host_.incarnation(slot) == peer.incarnation) {
      host_.member(slot).announced += peer.unannounced;
    }
    peer.unannounced = 0;
  }
  for (device::CompletionQueue* const cq : to_publish_) {
    if (cq->publish()) {
      progress_.event_raised();
      told_ = true;
    }
  }
  to_publish_.clear();
}

bool Process::has_work(Time now) {
  if (!stalled_ || room_again()) return next_deadline() <= now;
  return std::min(ack_again_, link_->next_timer()) <= now;
}

Time Process::next_deadline() { return has_more() ? 0 : std::min(ack_again_, link_->next_timer()); }

// As HostLink has it.
void Process::on_ready(Time now, bool readable) {
  if (readable) membership_.on_ready();
  look_at_members();
  for (int i = 0; i < kMostPerTurn && ledger_.awaits_empty(); ++i) (void)receive_datagrams(now);
}

bool Process::prepare_sleep() { return !ledger_.awaits_empty() && link_->prepare_sleep(); }

void Process::set_polling(bool polling) {
  host_.table().slots[slot_].polling.store(polling ? 1 : 0, std::memory_order_seq_cst);
}

// --- ProgressWorld

device::ProgressWorld::Ready Process::sleep_helper(Time until, Wakes wakes) {
  helper_until_ = until;
  const Host::Member& self = host_.member(slot_);
  const std::array<int, 4> fds{wake_.get(), self.control.get(), link_->fd(), self.receive.get()};
  if (wakes == Wakes::kPackets && until > clock()) check_sleep();
  if (wakes == Wakes::kControl && until > clock()) check_control_sleep();
  (void)scheduler_.sleep(std::span(fds).first(wakes == Wakes::kPackets ? 4 : 2), until);
  Ready ready{.control = Scheduler::is_readable({&fds[1], 1})};
  if (wakes == Wakes::kPackets) ready.packets = readable_packets();
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  return ready;
}

link::ReadyFds Process::readable_packets() const {
  const int datagrams = host_.member(slot_).receive.get();
  const int bell = link_->fd();
  link::ReadyFds ready;
  ready[kDatagrams] = Scheduler::is_readable({&datagrams, 1});
  ready[kBell] = Scheduler::is_readable({&bell, 1});
  return ready;
}

void Process::wake_helper() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

device::ProgressWorld::Woken Process::sleep_receiving(device::CompletionChannel& channel,
                                                      bool may_sleep) {
  // A signal, now and then.
  if (scheduler_.random().below(32) == 0) return {.error = EINTR};
  const std::array<int, 3> fds{channel.fd(), link_->fd(), host_.member(slot_).receive.get()};
  if (may_sleep) check_sleep();
  if (may_sleep) check_sleep_on(channel);
  if (may_sleep) check_owed();
  (void)scheduler_.sleep(fds, may_sleep ? kNever : clock());
  return {.by_channel = Scheduler::is_readable({fds.data(), 1}), .packets = readable_packets()};
}

int Process::sleep_on(device::CompletionChannel& channel, device::CompletionQueue*& cq) {
  const int fd = channel.fd();
  while (!channel.take(cq)) {
    check_sleep_on(channel);
    (void)scheduler_.sleep({&fd, 1}, kNever);
  }
  return 0;
}

}  // namespace verbena::progress_sim
