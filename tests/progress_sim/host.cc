// SPDX-License-Identifier: Apache-2.0
#include "progress_sim/host.h"

#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "link/membership.h"

namespace verbena::progress_sim {
namespace {

void signal(int fd) {
  const uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}

}  // namespace

Host::Host() {
  void* const memory = ::mmap(nullptr, sizeof(link::SharedTable), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  VERBENA_CHECK(memory != MAP_FAILED);
  table_ = static_cast<link::SharedTable*>(memory);
}

Host::~Host() { ::munmap(table_, sizeof(link::SharedTable)); }

void Host::abandon() {
  VERBENA_CHECK(::mmap(table_, sizeof(link::SharedTable), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == table_);
  for (Member& member : members_) {
    member.control.reset();
    member.receive.reset();
    member.send.reset();
  }
}

std::vector<uint8_t> Host::alive() const {
  std::vector<uint8_t> slots;
  for (uint8_t slot = 1; slot < kMembers; ++slot) {
    if (members_[slot].alive) slots.push_back(slot);
  }
  return slots;
}

void Host::prepare(uint8_t slot) {
  Member& made = members_[slot];
  made.messages.clear();
  made.in_flight = 0;
  made.announced = made.read = 0;
  made.control.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::array<int, 2> ends{};
  VERBENA_CHECK(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  made.receive.reset(ends[0]);
  made.send.reset(ends[1]);
  table_->slots[slot].budget.store(kBudget, std::memory_order_relaxed);
}

void Host::join(uint8_t slot) {
  members_[slot].alive = true;
  table_->slots[slot].incarnation.fetch_add(1, std::memory_order_seq_cst);
  changed();
}

void Host::remove(uint8_t slot) {
  members_[slot].alive = false;
  link::SlotRecord& record = table_->slots[slot];
  record.polling.store(0, std::memory_order_relaxed);
  record.incarnation.fetch_add(1, std::memory_order_seq_cst);
  table_->doorbells[slot].asleep.store(0, std::memory_order_relaxed);
  changed();
}

void Host::changed() {
  table_->generation.fetch_add(1, std::memory_order_seq_cst);
  for (const uint8_t slot : alive()) signal(members_[slot].control.get());
}

void Host::tell(uint8_t slot, Message message) {
  Member& to = members_[slot];
  if (!to.alive) return;
  to.messages.push_back(std::move(message));
  signal(to.control.get());
}

}  // namespace verbena::progress_sim

// --- as a member sees it

namespace verbena::link {

using progress_sim::Host;
using Kind = Host::Message::Kind;

SharedTable& Membership::table() { return host_.table(); }

uint32_t Membership::generation() {
  const uint32_t generation = host_.table().generation.load(std::memory_order_acquire);
  if (generation != seen_generation_) {
    seen_generation_ = generation;
    for (const uint8_t slot : std::to_array<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8})) {
      incarnation_[slot] = host_.incarnation(slot);
    }
  }
  return generation;
}

void Membership::on_ready() {
  Host::Member& self = host_.member(slot_);
  uint64_t count = 0;
  (void)!::read(self.control.get(), &count, sizeof count);
  (void)generation();
  while (!self.messages.empty()) {
    Host::Message message = std::move(self.messages.front());
    self.messages.pop_front();
    (void)generation();
    const bool lives = message.incarnation == incarnation_[message.from];
    switch (message.kind) {
      case Kind::kRing:
        // What it sent before it went has been sent.
        if (lives || message.incarnation + 1 == incarnation_[message.from]) {
          events_->on_ring(message.from, message.incarnation, message.ring, message.bell);
        }
        break;
      case Kind::kBell:
        if (lives) events_->on_bell(message.from, message.bell);
        break;
      case Kind::kNoRing: events_->on_no_ring(message.from); break;
      case Kind::kWake:   events_->on_woken(); break;
    }
  }
}

bool Membership::offer_ring(uint8_t slot, int ring, int bell) {
  if (!host_.member(slot).alive) return false;
  host_.tell(slot, {.kind = Kind::kRing,
                    .from = slot_,
                    .incarnation = incarnation_[slot_],
                    .ring = UniqueFd(::dup(ring)),
                    .bell = UniqueFd(::dup(bell))});
  return true;
}

void Membership::offer_bell(uint8_t slot, int bell) {
  host_.tell(slot, {.kind = Kind::kBell,
                    .from = slot_,
                    .incarnation = incarnation_[slot_],
                    .ring = {},
                    .bell = UniqueFd(::dup(bell))});
}

void Membership::refuse_ring(uint8_t slot) {
  host_.tell(slot, {.kind = Kind::kNoRing, .from = slot_});
}

bool Membership::wake(uint8_t slot) {
  host_.tell(slot, {.kind = Kind::kWake, .from = slot_});
  return host_.member(slot).alive;
}

}  // namespace verbena::link
