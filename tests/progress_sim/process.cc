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
  for (Peer& peer : peers_) peer.by_ring = scheduler.random().below(2) != 0;
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
  progress_.finish();
  lock_.unlock();
  return there;
}

uint32_t Process::poll(device::CompletionQueue& cq) {
  told_ = true;
  std::array<transport::Completion, 16> out;
  if (const uint32_t got = cq.poll(out); got != 0) {
    progress_.still_polling();
    return got;
  }
  progress_.poll();
  return cq.poll(out);
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
    peer.incarnation = incarnation;
  }
}

// What was posted to it and not acknowledged completes, with an error.
void Process::lose(Peer& peer) {
  for (; peer.acked < peer.posted; ++peer.acked) {
    sent_.push({.status = transport::WcStatus::kRetryExceeded});
  }
  peer = {.by_ring = peer.by_ring};
}

bool Process::has_more() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) { return peer.sent < peer.posted; });
}

bool Process::owes_acks() const {
  return std::ranges::any_of(peers_,
                             [](const Peer& peer) { return peer.ack_sent < peer.received; });
}

// --- sending

bool Process::send(uint8_t slot, Peer& peer, Header header, uint32_t bytes) {
  header.from = slot_;
  header.from_incarnation = incarnation_;
  header.to_incarnation = peer.incarnation;
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
    if (peer.ack_sent == peer.received) continue;
    const uint64_t received = peer.received;
    if (send(slot, peer, {.sequence = received, .is_ack = true}, 0)) {
      peer.ack_sent = received;
    } else {
      ack_again_ = clock() + kAckAgain;
    }
  }
}

// --- receiving

size_t Process::receive(link::Look, Time now) {
  look_at_members();
  return link_->receive(now) + receive_datagrams(now);
}

size_t Process::receive_datagrams(Time now) {
  std::array<Header, 16> batch;
  const ssize_t got = ::read(host_.member(slot_).receive.get(), batch.data(), sizeof batch);
  if (got <= 0) ledger_.found_empty(now);
  const size_t count = got <= 0 ? 0 : static_cast<size_t>(got) / sizeof(Header);
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
  if (header.is_ack) {
    if (header.sequence > peer.sent) return report_("what was not sent is acknowledged");
    for (; peer.acked < header.sequence; ++peer.acked) sent_.push({});
    return;
  }
  if (header.sequence != peer.received) return report_("a message is lost, or came twice");
  ++peer.received;
  ++in_memory_;
  received_.push({});
}

// --- ProgressWork

device::ProgressWork::Looked Process::look(Time now) {
  Looked looked{.owed_acks = owes_acks()};
  looked.pieces = receive(link::Look::kLikely, now);
  if (looked.pieces == 0) looked.has_work = has_work(now);
  return looked;
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

Time Process::next_deadline() const {
  return has_more() ? 0 : std::min(ack_again_, link_->next_timer());
}

// As HostLink has it.
void Process::on_ready(Time now) {
  membership_.on_ready();
  look_at_members();
  for (int i = 0; i < kMostPerTurn && ledger_.awaits_empty(); ++i) (void)receive_datagrams(now);
}

bool Process::prepare_sleep() { return !ledger_.awaits_empty() && link_->prepare_sleep(); }

void Process::set_polling(bool polling) {
  host_.table().slots[slot_].polling.store(polling ? 1 : 0, std::memory_order_seq_cst);
}

// --- ProgressWorld

void Process::sleep_helper(Time until, Wakes wakes) {
  helper_until_ = until;
  const Host::Member& self = host_.member(slot_);
  const std::array<int, 4> fds{wake_.get(), self.control.get(), link_->fd(), self.receive.get()};
  if (wakes == Wakes::kPackets && until > clock()) check_sleep();
  if (wakes == Wakes::kControl && until > clock()) check_control_sleep();
  (void)scheduler_.sleep(std::span(fds).first(wakes == Wakes::kPackets ? 4 : 2), until);
  uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
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
  (void)scheduler_.sleep(fds, may_sleep ? kNever : clock());
  return {.by_channel = scheduler_.sleep({fds.data(), 1}, clock())};
}

// Whatever is in a ring by now, and nobody is about to take, has rung the bell.
void Process::check_sleep() {
  const Host::Member& self = host_.member(slot_);
  if (self.announced <= self.read || !self.messages.empty()) return;
  const int bell = link_->fd();
  if (is_at_work() || Scheduler::is_readable({&bell, 1})) return;
  report_("a thread sleeps over packets");
}

// Not when a queue was armed, nobody polls or is about to, and its thread sleeps where it does not
// receive.
void Process::check_control_sleep() const {
  const bool others_receive = waiting_ != 0 || told_ || arming_ != 0 ||
                              clock() - left_ < 2 * device::HelperAlarm::kExpectedBack;
  if (on_their_own_ == 0 || others_receive) return;
  const int wake = wake_.get();
  if (!Scheduler::is_readable({&wake, 1})) report_("packets are left to nobody");
}

// A queue that is armed has no completion, or its channel an event.
void Process::check_sleep_on(const device::CompletionChannel& channel) {
  const device::CompletionQueue& cq = &channel == &sent_channel_ ? sent_ : received_;
  const bool unseen = cq.armed() && !cq.empty();
  // Looked at last: whoever showed it then has raised the event, or is about to.
  const int fd = channel.fd();
  if (is_at_work() || Scheduler::is_readable({&fd, 1})) return;
  if (unseen) report_("a thread sleeps though there is a completion");
}

int Process::sleep_on(device::CompletionChannel& channel, device::CompletionQueue*& cq) {
  const int fd = channel.fd();
  while (!channel.take(cq)) {
    check_sleep_on(channel);
    (void)scheduler_.sleep({&fd, 1}, kNever);
  }
  return 0;
}

// --- at the end

bool Process::is_at_work() const { return scheduler_.is_locked(&lock_, sizeof lock_); }

bool Process::has_datagrams_out() const {
  return std::ranges::any_of(
      peers_, [](const Peer& peer) { return !peer.by_ring && peer.acked < peer.sent; });
}

std::string Process::describe() const {
  std::string all = "process " + std::to_string(slot_) + "." + std::to_string(id_) + ": credits " +
                    std::to_string(ledger_.outstanding()) + (stalled_ ? ", stalled" : "") +
                    (owes_acks() ? ", owes ACKs" : "");
  for (size_t slot = 1; slot < peers_.size(); ++slot) {
    const Peer& peer = peers_[slot];
    if (peer.acked == peer.posted) continue;
    all += "; to " + std::to_string(slot) + (peer.by_ring ? " by ring" : " by datagram") +
           ": posted " + std::to_string(peer.posted) + ", sent " + std::to_string(peer.sent) +
           ", acknowledged " + std::to_string(peer.acked);
  }
  return all;
}

void Process::check_rest() {
  if (ledger_.awaits_empty()) report_("the room of a dead member does not come back");
  if (owes_acks()) report_("an acknowledgement is owed for ever");
  if (!received_.empty()) report_("a completion waits for ever");
}

// A receiver keeps a little of what it has read until it reads more.
void Process::check_credits() {
  const int64_t open = ledger_.outstanding();
  if (open < 0 || open >= Host::kBudget / 8) {
    report_(std::to_string(open) + " of its credits are lost");
  }
}

void Process::check_peers(const std::vector<std::unique_ptr<Process>>& all) {
  for (const auto& other : all) {
    Peer& peer = peers_[other->slot_];
    if (other->incarnation_ != peer.incarnation) continue;
    if (peer.acked != peer.posted) report_("a message is not acknowledged");
    if (!peer.by_ring) continue;
    auto* const ring = link_->way_to(other->slot_);
    if (ring != nullptr && link::SharedLink::is_unread(*ring)) report_("a ring is not read");
    if (ring != nullptr && !link_->has_room(*ring)) report_("a ring has no room");
  }
}

}  // namespace verbena::progress_sim
