// SPDX-License-Identifier: Apache-2.0
// Process: queue pairs and completion queues that are destroyed while others are at work, and the
// end of the process. What Context, Engine and HostLink do then is done here in the same order.
#include <utility>

#include "progress_sim/process.h"

namespace verbena::progress_sim {
namespace {

constexpr uint32_t kSpareEntries = 4096;

}  // namespace

// --- queue pairs

void Process::replace_queue_pair(uint8_t slot) {
  lock_.lock();
  look_at_members();
  Peer& peer = peers_[slot];
  const Qpn old = peer.qpn;
  sent_.purge(old);
  received_.purge(old);
  if (spare_.has_value()) (*spare_).purge(old);
  peer = {.incarnation = peer.incarnation,
          .by_ring = peer.by_ring,
          .qpn = next_qpn(),
          .qp = peer.qp + 1,
          .peer_qp = peer.peer_qp,
          .owes_word = (peer.incarnation & 1) != 0,
          .unannounced = peer.unannounced};
  progress_.finish(clock());
  lock_.unlock();
  destroyed_.emplace(old.value, destroyed_.size() + 1);
}

// What is for a queue pair that is gone is dropped, and its sender hears of the new one; from then
// on what it had posted to the old one has failed.
bool Process::is_for_this_one(const Header& header, Peer& peer) {
  if (header.from_qp > peer.peer_qp) {
    lose(peer);
    peer.peer_qp = header.from_qp;
  }
  if (header.to_qp != peer.qp) peer.owes_word = true;
  return header.from_qp == peer.peer_qp && header.to_qp == peer.qp;
}

// --- completion queues

device::CompletionQueue& Process::queue_for(uint64_t sequence) {
  return spare_.has_value() && sequence % 2 != 0 ? *spare_ : received_;
}

device::CompletionQueue& Process::make_spare() {
  lock_.lock();
  device::CompletionQueue& made = spare_.emplace(static_cast<device::CompletionOwner&>(*this),
                                                 kSpareEntries, &received_channel_);
  lock_.unlock();
  return made;
}

void Process::destroy_spare() {
  lock_.lock();
  std::erase(to_publish_, &*spare_);
  received_channel_.forget(*spare_);
  spare_.destroy();
  progress_.finish(clock());
  lock_.unlock();
}

// --- the process

void Process::shut_down() {
  lock_.lock();
  progress_.settle(clock());
  link_->withdraw_all();
  link_->flush();
  lock_.unlock();
  progress_.stop();
}

void Process::leave() {
  ledger_.settle();
  link_.reset();
  host_.remove(slot_);
}

}  // namespace verbena::progress_sim
