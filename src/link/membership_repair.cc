// SPDX-License-Identifier: Apache-2.0
// Noticing deaths and keeping the steering right (membership_state.h says how).
#include <algorithm>
#include <array>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "link/clock.h"
#include "link/membership_state.h"
#include "link/steering.h"

namespace verbena::link {
namespace {

constexpr Duration kFirstLook = 200 * kMicrosecond;
constexpr Duration kLastLook = kSecond;            // while the lock cannot be had
constexpr uint32_t kLooks = 10;                    // 0.2 ms, doubled each time: 200 ms in all
constexpr Duration kHoldBack = 20 * kMillisecond;  // the lock's holder may be stopped
constexpr Duration kProbeAgain = 20 * kMillisecond;
constexpr Duration kFirstProbePause = 2 * kMillisecond;
constexpr Duration kLastProbePause = kSecond;

// A probe as it travels: long enough to be looked at by those who expect a transport packet.
//
//   0       5      6       8        16           20
//   | zero | 0xff | index | key    | membership | zero |    40 bytes
constexpr size_t kProbeBytes = 40;
constexpr size_t kProbeKeyAt = 8;
constexpr size_t kProbeMembershipAt = 16;

}  // namespace

void Membership::State::arm_timer() {
  const Time at = std::min(repair_at, probe_at);
  itimerspec when{};
  if (at != kNever) {
    const Time due = std::max<Time>(at, 1);
    when.it_value = {static_cast<time_t>(due / kSecond), static_cast<long>(due % kSecond)};
  }
  (void)::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Membership::State::suspect(Duration in) {
  const Time at = monotonic_now() + in;
  looks_left = kLooks;
  if (repair_at <= at) return;
  repair_at = at;
  look_pause = kFirstLook;
  arm_timer();
}

void Membership::State::on_peer_gone(uint8_t gone) {
  look();
  if (is_member(gone)) {
    unwatched[gone] = incarnation[gone];
    suspect(0);
  } else {  // it left by itself, or was reaped by another
    watch_neighbours();
    if (Roster(table()).needs_steering()) suspect(0);
  }
}

void Membership::State::on_timer() {
  uint64_t ticks = 0;
  (void)!::read(timer.get(), &ticks, sizeof ticks);
  const Time now = monotonic_now();
  if (now >= repair_at) {
    repair_at = kNever;
    repair();
  }
  if (now >= probe_at) {
    probe_at = kNever;
    probe();
  }
  arm_timer();
}

void Membership::State::steer(Roster& roster) {
  const ManagementRules* const rules = options.management;
  const auto messages = rules != nullptr ? rules->attributes() : ManagementAttributes{};
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const UdpSockets* const held = sockets(family);
    if (held == nullptr) continue;
    // Refused (no memory): the kernel goes on by hash or with the old program, and we forward.
    if (attach_steering(held->receive.get(), roster.order(family), messages) == 0) {
      ++counters.reattached;
    }
  }
  roster.mark_steered();
}

void Membership::State::repair() {
  Roster roster(table());
  uint32_t dead = 0;
  {
    const auto lock = MemberLock::try_take(names, table());
    if (!lock) {  // somebody is at it, or joins
      repair_at = monotonic_now() + look_pause;
      look_pause = std::min(look_pause * 2, kLastLook);
      return;
    }
    dead = roster.reap_dead(names, self, monotonic_now());
    counters.reaped += dead;
    if (roster.needs_steering()) steer(roster);
  }
  look();
  watch_neighbours();
  if (dead > 0) probe_soon(0);
  if (watch_unwatched() || (dead == 0 && looks_left > 0)) {
    if (looks_left > 0) --looks_left;
    repair_at = monotonic_now() + look_pause;
    look_pause = std::min(look_pause * 2, kLastLook);
  }
}

// A dying process closes its descriptors one by one, and may be off its core in between: when its
// last connection has ended and its name is still taken, only looking again shows its death.
bool Membership::State::watch_unwatched() {
  bool left = false;
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    if (unwatched[i] == 0) continue;
    const auto slot = static_cast<uint8_t>(i);
    if (unwatched[slot] != incarnation[slot] || peers->watch(slot)) unwatched[slot] = 0;
    left = left || unwatched[slot] != 0;
  }
  return left;
}

void Membership::State::watch(uint8_t slot) {
  if (peers->watch(slot) || unwatched[slot] == incarnation[slot]) return;
  unwatched[slot] = incarnation[slot];
  suspect(kFirstLook);
}

// Everybody is connected with the next higher and the next lower slot: where one of them is
// stopped, the other notices, and where both die, the next ones.
void Membership::State::watch_neighbours() {
  const auto next = [this](int step) {
    size_t at = self;
    do {
      at = (at + kSlots + static_cast<size_t>(step)) % kSlots;
    } while (at != self && !is_member(static_cast<uint8_t>(at)));
    return static_cast<uint8_t>(at);
  };
  const uint8_t above = next(1);
  if (above == self) return;
  watch(above);
  watch(next(-1));
}

bool Membership::State::holds_back() {
  if (!Roster(table()).misleads()) {
    held_since = 0;
    return false;
  }
  const Time now = monotonic_now();
  const uint32_t moved = table().moved.load(std::memory_order_relaxed);
  if (held_since == 0 || held_for != moved) held_since = now;
  held_for = moved;
  if (now - held_since >= kHoldBack) return false;
  suspect(0);
  return true;
}

void Membership::State::probe_soon(Duration in) {
  const Time at = monotonic_now() + in;
  if (probe_at <= at) return;
  probe_at = at;
  arm_timer();
}

// A packet came to us that is another's, or a probe could not be used. Either the order is wrong,
// or it was on the way while it changed, or the kernel joined packets for several members (GRO):
// probes tell, less and less often while they find nothing.
void Membership::State::doubt_order() {
  if (probe_at != kNever) return;
  if (probed_membership != table().membership.load(std::memory_order_relaxed)) probe_pause = 0;
  probe_pause = std::clamp(probe_pause * 2, kFirstProbePause, kLastProbePause);
  probe_soon(std::max<Duration>(last_probe + probe_pause - monotonic_now(), 0));
}

void Membership::State::probe() {
  Roster roster(table());
  const uint32_t membership = table().membership.load(std::memory_order_acquire);
  const bool again =
      membership != probed_membership;  // once more when a dying socket is surely closed
  const Time now = monotonic_now();
  last_probe = now;
  probed_membership = membership;
  if (again) probe_soon(kProbeAgain);
  // One is enough when many have cause.
  if (table().probed_membership.load(std::memory_order_relaxed) == membership &&
      now - table().probed_at_ns.load(std::memory_order_relaxed) < kFirstProbePause) {
    return;
  }
  table().probed_at_ns.store(now, std::memory_order_relaxed);
  table().probed_membership.store(membership, std::memory_order_relaxed);
  ++counters.probed;
  std::array<uint8_t, kProbeBytes> bytes{};
  bytes[kSlotByte] = kProbeSlot;
  std::memcpy(bytes.data() + kProbeKeyAt, &table().key, sizeof table().key);
  std::memcpy(bytes.data() + kProbeMembershipAt, &membership, sizeof membership);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const UdpSockets* const held = sockets(family);
    if (held == nullptr) continue;
    sockaddr_storage to{};
    socklen_t length = 0;
    if (family == Family::kIpv4) {
      auto* const in = reinterpret_cast<sockaddr_in*>(&to);
      *in = {.sin_family = AF_INET,
             .sin_port = htons(options.udp.port),
             .sin_addr = {htonl(INADDR_LOOPBACK)},
             .sin_zero = {}};
      length = sizeof *in;
    } else {
      auto* const in6 = reinterpret_cast<sockaddr_in6*>(&to);
      in6->sin6_family = AF_INET6;
      in6->sin6_port = htons(options.udp.port);
      in6->sin6_addr = in6addr_loopback;
      length = sizeof *in6;
    }
    const size_t count = roster.order(family).size();
    for (size_t i = 0; i < count; ++i) {
      bytes[kProbeIndexByte] = static_cast<uint8_t>(i);
      (void)::sendto(held->send.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                     reinterpret_cast<const sockaddr*>(&to), length);
    }
  }
}

bool Membership::State::on_probe(const Datagram& datagram) {
  if (datagram.bytes.size() != kProbeBytes || !addresses.contains(datagram.source)) return false;
  uint64_t key = 0;
  uint32_t membership = 0;
  std::memcpy(&key, datagram.bytes.data() + kProbeKeyAt, sizeof key);
  std::memcpy(&membership, datagram.bytes.data() + kProbeMembershipAt, sizeof membership);
  if (key != table().key) return false;
  const uint32_t index = datagram.bytes[kProbeIndexByte];
  const Family family = datagram.destination.is_ipv4() ? Family::kIpv4 : Family::kIpv6;
  Roster roster(table());
  const std::vector<uint8_t> order = roster.order(family);
  if (index < order.size() && order[index] == self) return true;
  const auto lock = MemberLock::try_take(names, table());
  // Without the lock we cannot say so; and if other members were there when it was sent, it proves
  // nothing now.
  if (!lock || membership != table().membership.load(std::memory_order_acquire)) {
    doubt_order();
  } else if (roster.move_to(family, index, self)) {
    ++counters.corrected;
    steer(roster);
  }
  return true;
}

}  // namespace verbena::link
