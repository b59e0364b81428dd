// SPDX-License-Identifier: Apache-2.0
// Process: what may not be, when a thread falls asleep and at the end.
#include <algorithm>

#include "progress_sim/process.h"

namespace verbena::progress_sim {

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
  const auto has_unseen = [](const device::CompletionQueue& cq) {
    return cq.armed() && !cq.empty();
  };
  bool unseen = has_unseen(&channel == &sent_channel_ ? sent_ : received_);
  if (&channel == &received_channel_) {
    const Scheduler::Alone alone;  // it may be gone with the next step
    // Its own thread may be between asking for the event and raising it.
    unseen = unseen || (arming_ == 0 && spare_.has_value() && has_unseen(*spare_));
  }
  // Looked at last: whoever showed it then has raised the event, or is about to.
  const int fd = channel.fd();
  if (is_at_work() || Scheduler::is_readable({&fd, 1})) return;
  if (unseen) report_("a thread sleeps though there is a completion");
}

// The program of what it received for another thread may take its time to answer.
void Process::check_owed() {
  constexpr Duration kSoon = 2 * device::HelperAlarm::kExpectedBack;
  const Scheduler::Alone alone;
  const int wake = wake_.get();
  if (!owes_acks() || is_at_work() || Scheduler::is_readable({&wake, 1})) return;
  if (helper_until_ > clock() + kSoon) report_("a thread sleeps, and holds acknowledgements back");
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
