// SPDX-License-Identifier: Apache-2.0
#include "link/credits.h"

#include <algorithm>
#include <bit>

namespace verbena::link {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

CreditLedger::CreditLedger(SharedTable& table, uint8_t self) : table_(table), self_(self) {
  members_.reserve(kSlots);
  touched_.reserve(kSlots);
  to_wake_.reserve(kSlots);
  refused_.reserve(kSlots);
  before_.reserve(kSlots);
  return_at_ = table.slots[self].budget.load(memory_order_relaxed) / 8;
}

void CreditLedger::start_afresh() {
  Inbox& inbox = table_.inboxes[self_];
  inbox.outstanding.store(0, memory_order_relaxed);
  for (auto& word : inbox.waiting) word.store(0, memory_order_relaxed);
  for (auto& word : inbox.wake) word.store(0, memory_order_relaxed);
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    const auto slot = static_cast<uint8_t>(i);
    // Ourselves too: the slot is not taken yet.
    if (slot != self_ && !is_taken(table_.slots[slot].incarnation.load(memory_order_relaxed))) {
      continue;
    }
    CreditPair& from = pair(self_, slot);
    from.consumed.store(from.granted.load(memory_order_relaxed), memory_order_relaxed);
    CreditPair& to = pair(slot, self_);
    const uint64_t even = to.consumed.load(memory_order_relaxed);
    to.granted.store(even, memory_order_relaxed);
    to.sent.store(even, memory_order_relaxed);
  }
}

void CreditLedger::refresh() {
  members_.clear();
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    const auto slot = static_cast<uint8_t>(i);
    const uint32_t incarnation = table_.slots[slot].incarnation.load(memory_order_acquire);
    if (is_taken(incarnation)) members_.push_back(slot);
    if (incarnation == incarnation_[slot]) continue;
    if (is_taken(
            incarnation_[slot])) {  // the one we knew is gone: what it had in our inbox is free
      const uint64_t granted = pair(self_, slot).granted.load(memory_order_acquire);
      if (granted > incoming_[slot].consumed) reap(slot, granted - incoming_[slot].consumed);
    }
    incarnation_[slot] = incarnation;
    if (!is_taken(incarnation)) continue;
    Outgoing& out = outgoing_[slot];
    out.granted = pair(slot, self_).granted.load(memory_order_relaxed);
    out.sent = pair(slot, self_).sent.load(memory_order_relaxed);
    out.grant = 0;
    incoming_[slot] = {.consumed = pair(self_, slot).consumed.load(memory_order_relaxed)};
    waiting_.reset(slot);
  }
}

void CreditLedger::touch(uint8_t slot) {
  outgoing_[slot].touched = true;
  touched_.push_back(slot);
}

uint32_t CreditLedger::others_waiting(uint8_t slot) const {
  const auto& waiting = table_.inboxes[slot].waiting;
  uint32_t count = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    uint64_t bits = waiting[i].load(memory_order_relaxed);
    if (i == self_ / 64) bits &= ~(uint64_t{1} << (self_ % 64));
    count += static_cast<uint32_t>(std::popcount(bits));
  }
  return count;
}

void CreditLedger::start_waiting(uint8_t slot) {
  const uint64_t bit = uint64_t{1} << (self_ % 64);
  waiting_.set(slot);
  // Written only when it changes something: the receiver works on the same cache lines.
  auto& waiting = table_.inboxes[slot].waiting[self_ / 64];
  if ((waiting.load(memory_order_relaxed) & bit) == 0) {
    waiting.fetch_or(bit, memory_order_relaxed);
  }
  // Pairs with give_back(): either it sees our bit after its subtraction, or we see its
  // subtraction.
  auto& wake = table_.inboxes[slot].wake[self_ / 64];
  if ((wake.load(memory_order_seq_cst) & bit) == 0) wake.fetch_or(bit, memory_order_seq_cst);
}

void CreditLedger::stop_waiting(uint8_t slot) {
  const uint64_t bit = uint64_t{1} << (self_ % 64);
  waiting_.reset(slot);
  table_.inboxes[slot].waiting[self_ / 64].fetch_and(~bit, memory_order_relaxed);
  table_.inboxes[slot].wake[self_ / 64].fetch_and(~bit, memory_order_relaxed);
}

bool CreditLedger::try_acquire(uint8_t slot, int64_t wanted) {
  Outgoing& out = outgoing_[slot];
  Inbox& inbox = table_.inboxes[slot];
  CreditPair& shared = pair(slot, self_);
  const int64_t budget = table_.slots[slot].budget.load(memory_order_relaxed);
  const int64_t need = std::max<int64_t>(kMaxPacketCost - out.grant, 1);
  // Others wait: nobody keeps more than its share.
  const uint32_t others = others_waiting(slot);
  const auto own = static_cast<int64_t>(out.granted - shared.consumed.load(memory_order_acquire));
  const int64_t share = others == 0 ? budget : std::max(budget / (1 + others), kMaxPacketCost);
  const int64_t room = std::min(budget - inbox.outstanding.load(memory_order_seq_cst), share - own);
  if (room < need) return false;
  const int64_t take = std::clamp(std::max(wanted, kChunk) - out.grant, need, room);
  if (inbox.outstanding.fetch_add(take, memory_order_seq_cst) + take > budget) {
    inbox.outstanding.fetch_sub(take, memory_order_seq_cst);
    return false;
  }
  out.grant += take;
  out.granted += static_cast<uint64_t>(take);
  shared.granted.store(out.granted, memory_order_release);
  if (!out.touched) touch(slot);
  return true;
}

bool CreditLedger::acquire(uint8_t slot, int64_t wanted) {
  if (!try_acquire(slot, wanted)) {
    start_waiting(slot);
    if (!try_acquire(slot, wanted)) {
      outgoing_[slot].refused = true;
      refused_.push_back(slot);
      return false;
    }
  }
  if (waiting_[slot]) stop_waiting(slot);
  return true;
}

bool CreditLedger::room_again() const {
  for (const uint8_t slot : before_) {
    if (!is_taken(incarnation_[slot])) return true;
    if (has_room(slot)) return true;
  }
  return false;
}

// For a batch.
bool CreditLedger::has_room(uint8_t slot) const {
  const int64_t budget = table_.slots[slot].budget.load(memory_order_relaxed);
  const int64_t open = table_.inboxes[slot].outstanding.load(memory_order_relaxed);
  return budget - open >= std::min(kChunk, budget / 4);
}

// Sent without asking (an acknowledgement, a retry): it lies in the buffer all the same.
void CreditLedger::overdraw(uint8_t slot) {
  Outgoing& out = outgoing_[slot];
  const int64_t missing = -out.grant;
  out.grant = 0;
  table_.inboxes[slot].outstanding.fetch_add(missing, memory_order_relaxed);
  out.granted += static_cast<uint64_t>(missing);
  pair(slot, self_).granted.store(out.granted, memory_order_release);
}

void CreditLedger::settle_all() {
  for (const uint8_t slot : touched_) {
    Outgoing& out = outgoing_[slot];
    out.touched = false;
    if (out.grant == 0) continue;
    CreditPair& shared = pair(slot, self_);
    // The receiver may have taken back a grant that lay unused for long (check_leftovers).
    const uint64_t consumed = shared.consumed.load(memory_order_acquire);
    const auto open = static_cast<int64_t>(out.granted - std::min(consumed, out.granted));
    const int64_t back = std::min(out.grant, open);
    out.granted -= static_cast<uint64_t>(back);
    shared.granted.store(out.granted, memory_order_release);
    table_.inboxes[slot].outstanding.fetch_sub(back, memory_order_seq_cst);
    out.grant = 0;
  }
  touched_.clear();
}

void CreditLedger::give_back() {
  Inbox& inbox = table_.inboxes[self_];
  const int64_t left = inbox.outstanding.fetch_sub(returned_, memory_order_seq_cst) - returned_;
  returned_ = 0;
  if (left <= int64_t{table_.slots[self_].budget.load(memory_order_relaxed)} / 2) wake_refused();
}

void CreditLedger::wake_refused() {
  Inbox& inbox = table_.inboxes[self_];
  for (size_t i = 0; i < inbox.wake.size(); ++i) {
    if (inbox.wake[i].load(memory_order_seq_cst) == 0) continue;
    uint64_t bits = inbox.wake[i].exchange(0, memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      const auto slot = static_cast<uint8_t>(i * 64 + static_cast<size_t>(std::countr_zero(bits)));
      if (to_wake_.size() < kSlots && slot != self_ &&
          table_.slots[slot].polling.load(memory_order_seq_cst) == 0) {
        to_wake_.push_back(slot);
      }
    }
  }
}

void CreditLedger::reclaim(uint8_t from, uint64_t cost) {
  reap(from, cost);
  free_reaped();
}

// The sender is gone; what it sent may still lie in our buffer, so the room is not free yet.
void CreditLedger::reap(uint8_t from, uint64_t cost) {
  incoming_[from].consumed += cost;
  pair(self_, from).consumed.store(incoming_[from].consumed, memory_order_release);
  reaped_ += cost;
}

void CreditLedger::free_reaped() {
  table_.inboxes[self_].outstanding.fetch_sub(static_cast<int64_t>(reaped_), memory_order_seq_cst);
  reclaimed_ += reaped_;
  reaped_ = 0;
}

void CreditLedger::begin_look() {
  for (const uint8_t slot : members_) {
    incoming_[slot].look_sent = pair(self_, slot).sent.load(memory_order_acquire);
  }
}

// Our sockets were empty after that much was sent. What is on the way just now is not missing in
// every look; what was lost is.
void CreditLedger::note_missing(uint8_t from, Time now) {
  Incoming& in = incoming_[from];
  const uint64_t missing = in.look_sent - std::min(in.look_sent, in.consumed);
  if (in.looks == 0 || missing == 0) in.missing_since = now;
  in.least_missing = in.looks == 0 ? missing : std::min(in.least_missing, missing);
  ++in.looks;
  if (missing != 0 && (in.looks < kLooks || now - in.missing_since < kQuiet)) return;
  in.looks = 0;
  if (in.least_missing != 0) reclaim(from, in.least_missing);
}

// Our sockets were empty. A sender whose counters have stood still since kQuiet has nothing on the
// way to us: what it has open was lost, or was granted to one that is stopped.
void CreditLedger::check_leftovers(Time now) {
  last_look_ = now;
  bool even = true;
  is_missing_ = false;
  for (const uint8_t slot : members_) {
    Incoming& in = incoming_[slot];
    const CreditPair& shared = pair(self_, slot);
    const uint64_t granted = shared.granted.load(memory_order_acquire);
    const uint64_t sent = shared.sent.load(memory_order_acquire);
    if (granted <= in.consumed) {
      in.looks = 0;
      continue;
    }
    const bool goes_on = granted != in.quiet_granted || sent != in.quiet_sent;
    if (goes_on) {
      in.quiet_granted = granted;
      in.quiet_sent = sent;
      in.quiet_since = now;
    } else if (now - in.quiet_since >= kQuiet) {
      reclaim(slot, granted - in.consumed);
      in.looks = 0;  // none of what is sent from here on was seen in them
      continue;
    }
    even = false;
    note_missing(slot, now);
    is_missing_ = is_missing_ || (goes_on && in.looks != 0);
  }
  // Nothing is open, so the sum is zero; a member killed between two instructions may have left it
  // off.
  std::atomic<int64_t>& sum = table_.inboxes[self_].outstanding;
  int64_t seen = sum.load(memory_order_seq_cst);
  const bool stale = even && seen != 0 && seen == stale_outstanding_;
  if (!stale) stale_since_ = now;
  stale_outstanding_ = even ? seen : 0;
  if (stale && now - stale_since_ >= kQuiet) {
    if (sum.compare_exchange_strong(seen, 0, memory_order_seq_cst)) seen = 0;
  }
  may_be_open_ = !even || seen != 0;
  // Who waits still was served elsewhere, or is gone; if not, it says so again.
  for (auto& word : table_.inboxes[self_].waiting) {
    if (word.load(memory_order_relaxed) != 0) word.store(0, memory_order_relaxed);
  }
  if (has_room(self_)) wake_refused();
}

}  // namespace verbena::link
