// SPDX-License-Identifier: Apache-2.0
#include "link/membership.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/joining.h"
#include "link/member_names.h"
#include "link/membership_state.h"
#include "link/numbers.h"
#include "link/own_sources.h"
#include "link/steering.h"

namespace verbena::link {
namespace {

constexpr Duration kJoinLockBound = 5 * kSecond;
constexpr Duration kPortLockBound = 5 * kSecond;
constexpr Duration kLeaveLockBound = 200 * kMillisecond;
constexpr int kBacklog = 128;

[[nodiscard]] MembershipError system_error(const std::string& step, int code) {
  return {MembershipError::Kind::kSystem, step + ": " + std::strerror(code), code};
}

[[nodiscard]] MembershipError lock_error(const GroupNames& names, int code) {
  if (code != ETIMEDOUT) return system_error("unix socket", code);
  const auto holder = GroupLock::holder(names);
  return {
      MembershipError::Kind::kNoAnswer,
      "the lock of the Verbena processes on this host is held by " +
          (holder ? "process " + std::to_string(*holder) : std::string("a process out of sight")) +
          ", which does not go on (stopped?); continue or end it",
      ETIMEDOUT};
}

void add_to_epoll(int epoll, int fd, uint32_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = uint64_t{tag} << 32}};
  (void)::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

struct Seat {
  uint8_t slot = 0;
  UniqueFd listener;
  uint64_t suffix = 0;
  std::string held{};  // the plain name that was not to be had
};

// A slot nobody has, and its name bound. A plain name can be taken by one that is not in the table:
// another user.
[[nodiscard]] Result<Seat, MembershipError> take_seat(const Roster& roster,
                                                      const MembershipOptions& options,
                                                      const GroupNames& names,
                                                      RandomSource& random) {
  // Who holds some of the plain names is passed by: newcomers find members sooner that have them.
  constexpr int kPlainAttempts = 64;
  constexpr int kAttempts = kPlainAttempts + 8;
  Seat seat;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto slot = roster.choose_slot(random, monotonic_now(), options.slot_rest);
    if (!slot) {
      return fail(MembershipError{
          MembershipError::Kind::kNoSlot,
          "no slot is free: 254 processes of this user use Verbena on this host", EUSERS});
    }
    seat.slot = *slot;
    seat.suffix = attempt < kPlainAttempts ? 0 : draw_suffix(random);
    const std::string name = names.member(seat.slot, seat.suffix);
    auto listener = listen_on(name, kBacklog);
    if (listener) {
      seat.listener = std::move(*listener);
      return seat;
    }
    if (listener.error() != EADDRINUSE) return fail(system_error("unix socket", listener.error()));
    if (seat.suffix == 0) seat.held = name;
  }
  return fail(system_error("unix socket", EADDRINUSE));
}

// IPv4 must be there; IPv6 may be absent.
[[nodiscard]] Result<std::array<UdpSockets, kFamilies>, MembershipError> open_sockets(
    const MembershipOptions& options, RandomSource& random) {
  std::array<UdpSockets, kFamilies> udp;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    auto opened = open_udp(family, options.udp, random.next());
    if (opened) {
      udp[index_of(family)] = std::move(*opened);
    } else if (opened.error().step == "bind" && opened.error().code == EADDRINUSE) {
      return fail(port_taken(options.udp.port, EADDRINUSE));
    } else if (family == Family::kIpv4) {
      return fail(system_error("UDP socket: " + opened.error().step, opened.error().code));
    }
  }
  return udp;
}

// For what is left in a leaving member's sockets.
class PassOn final : public DatagramHandler {
 public:
  explicit PassOn(Membership& host) : host_(host) {}
  void on_datagram(const Datagram& datagram) override {
    if (datagram.bytes.size() <= kSlotByte || datagram.bytes[kSlotByte] == kProbeSlot) return;
    (void)host_.route(datagram);
  }
  [[nodiscard]] uint32_t on_joined(const Datagram& rest, uint32_t segment) override {
    return host_.route_joined(rest, segment);
  }
  void on_consumed(const Datagram&, uint32_t) override {}

 private:
  Membership& host_;
};

}  // namespace

Membership::State::State(const MembershipOptions& given, TableMapping taken)
    : options(given), names(given.group, given.udp.port), mapping(std::move(taken)) {}

Membership::Membership(std::unique_ptr<State> state)
    : state_(std::move(state)), slot_(state_->self) {}

// Every process of the user must come to the same port, also when the first one became free
// meanwhile: members that are there decide, and one newcomer at a time looks.
Result<std::unique_ptr<Membership>, MembershipError> Membership::join(
    const MembershipOptions& options, RandomSource& random) {
  if (options.group.size() > GroupNames::kMaxGroupBytes) {
    return fail(system_error("the group's name is too long", ENAMETOOLONG));
  }
  if (!options.this_host_if_taken) return join_on_port(options, random);
  const GroupNames names(options.group, options.udp.port);
  const auto choosing = GroupLock::take_choice(names, kJoinLockBound);
  if (!choosing) return fail(lock_error(names, choosing.error()));
  MembershipOptions candidate = options;
  const std::vector<uint16_t> ports = candidate_ports(options.udp.port);
  const auto joined = [&](Result<std::unique_ptr<Membership>, MembershipError> host) {
    if (host && choosing->stranger()) {
      (*host)->state_->name_held = name_held_by(names.choice(), *choosing->stranger());
    }
    if (host && candidate.udp.port != options.udp.port) {
      (*host)->state_->this_host_only =
          this_host_only_because(options.udp.port, candidate.udp.port);
    }
    return host;
  };
  for (const uint16_t port : ports) {
    candidate.udp.port = port;
    if (has_members(GroupNames(options.group, port), port))
      return joined(join_on_port(candidate, random));
  }
  std::optional<MembershipError> why;
  for (const uint16_t port : ports) {
    candidate.udp.port = port;
    auto host = join_on_port(candidate, random);
    if (host || host.error().kind != MembershipError::Kind::kPortTakenByOther) {
      return joined(std::move(host));
    }
    if (!why) why = host.error();
  }
  return fail(*why);
}

Result<std::unique_ptr<Membership>, MembershipError> Membership::join_on_port(
    const MembershipOptions& options, RandomSource& random) {
  const GroupNames names(options.group, options.udp.port);
  const auto lock = GroupLock::take(names, kJoinLockBound);
  if (!lock) return fail(lock_error(names, lock.error()));
  auto obtained = obtain_table(names, options.udp.port, random);
  if (!obtained) return fail(obtained.error());

  auto state = std::make_unique<State>(options, std::move(obtained->mapping));
  State& s = *state;
  if (lock->stranger()) s.name_held = name_held_by(names.lock(), *lock->stranger());
  const auto table_lock = TableLock::take(s.table(), kJoinLockBound);
  if (!table_lock) {
    return fail(MembershipError{
        MembershipError::Kind::kNoAnswer,
        "the shared table of the Verbena processes on this host is locked by one of them that does "
        "not go on (stopped?); continue or end it",
        table_lock.error()});
  }
  Roster roster(s.table());
  s.counters.reaped = roster.reap_dead(names, std::nullopt, monotonic_now());
  auto seat = take_seat(roster, options, names, random);
  if (!seat) return fail(seat.error());
  s.self = seat->slot;
  if (seat->suffix != 0 && s.name_held.empty()) {
    const NameHolder holder = holder_of(seat->held, names.user());
    if (holder.who == NameHolder::Who::kForeign) s.name_held = name_held_by(seat->held, holder);
  }
  s.epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  s.timer.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!s.epoll.valid() || !s.timer.valid()) return fail(system_error("epoll, timerfd", errno));

  // From here on the kernel counts our sockets, at the end of their groups.
  auto udp = open_sockets(options, random);
  if (!udp) return fail(udp.error());
  s.udp = std::move(*udp);
  s.drop_own_sources();
  obtained->claim.reset();  // from here on ours is the first
  Entry entry{.pid = static_cast<uint32_t>(::getpid()),
              .takes_rings = options.takes_rings,
              .suffix = seat->suffix};
  for (size_t family = 0; family < kFamilies; ++family) {
    if (!s.udp[family].receive.valid()) continue;
    entry.source_port[family] = s.udp[family].source_port;
    s.receive_buffer = std::min(s.receive_buffer, s.udp[family].receive_buffer);
  }
  entry.budget = std::max(receive_budget(s.receive_buffer),
                          static_cast<uint32_t>(CreditLedger::kMaxPacketCost));
  s.table().slots[s.self].budget.store(entry.budget, std::memory_order_relaxed);
  s.ledger = std::make_unique<CreditLedger>(s.table(), s.self);
  s.ledger->start_afresh();
  roster.enter(s.self, entry);
  s.steer(roster);

  s.peers = std::make_unique<Peers>(s.names, s.table(), s.self, std::move(seat->listener),
                                    s.mapping.fd(), s.epoll.get(), kTagPeers);
  add_to_epoll(s.epoll.get(), s.timer.get(), kTagTimer);
  if (s.addresses.fd() >= 0) add_to_epoll(s.epoll.get(), s.addresses.fd(), kTagAddresses);
  s.refresh();
  s.watch_neighbours();
  if (s.counters.reaped > 0) s.probe_soon(0);
  return std::unique_ptr<Membership>(new Membership(std::move(state)));
}

// The sockets are closed under the lock, in the order the table says. The program is left to the
// survivors: while it is the old one, a packet for the member that takes our index reaches somebody
// who forwards it; were the new one attached first, it would die with our socket.
Membership::~Membership() {
  State& s = *state_;
  if (s.abandoned) return;
  s.ledger->settle();
  const auto lock = lock_to_leave();
  if (!lock) return;  // as if killed: the neighbours mend it
  Roster roster(s.table());
  // With the order as it is, us included, nothing of others comes here any more; what has come by
  // an older one is passed on.
  if (roster.needs_steering()) s.steer(roster);
  Ports(s.table(), s.self).clear();
  roster.leave(s.self, monotonic_now());
  pass_on_rest();
  for (UdpSockets& sockets : s.udp) sockets.receive.reset();
  s.peers.reset();
}

// Whoever holds it may be a newcomer that waits for our answer.
std::optional<MemberLock> Membership::lock_to_leave() {
  State& s = *state_;
  PassOn handler(*this);
  LockPatience patience(kLeaveLockBound);
  try {
    for (;;) {
      auto lock = MemberLock::try_take(s.names, s.table());
      if (lock) return std::move(*lock);
      if (lock.error() != EADDRINUSE) return std::nullopt;
      const auto pause = patience.next_pause();
      if (!pause) return std::nullopt;
      pollfd ready{s.epoll.get(), POLLIN, 0};
      const timespec wait{0, static_cast<long>(*pause)};
      if (::ppoll(&ready, 1, &wait, nullptr) > 0) on_ready(handler);
    }
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

// While members come and go, packets of others fall to us. Those that nobody has looked at would be
// lost with our sockets, and to a datagram's owner that is for ever.
void Membership::pass_on_rest() {
  constexpr int kMostBatches = 64;
  try {
    PassOn rest(*this);
    UdpReceiver receiver;
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      const UdpSockets* const held = state_->sockets(family);
      if (held == nullptr) continue;
      for (int i = 0; i < kMostBatches; ++i) {
        if (receiver.receive(held->receive.get(), family, rest, UdpReceiver::Ask::kBatch) == 0)
          break;
      }
    }
  } catch (const std::bad_alloc&) {
    return;  // as if killed: what others had here is lost
  }
}

void Membership::before_fork() { state_->ports_mutex.lock(); }

void Membership::after_fork_in_parent() {
  state_->ports_mutex.assert_held();  // by before_fork()
  state_->ports_mutex.unlock();
}

void Membership::abandon_in_child() {
  State& s = *state_;
  s.ports_mutex.assert_held();  // by before_fork()
  s.abandoned = true;
  s.peers->abandon();
  s.addresses.abandon();
  s.multicast_groups.abandon();
  s.epoll.reset();
  s.timer.reset();
  for (UdpSockets& sockets : s.udp) {
    sockets.receive.reset();
    sockets.send.reset();
  }
  s.mapping.abandon();
  s.ports_mutex.unlock();
}

int Membership::add_port(const Port& port, Ports::Kind kind) {
  State& s = *state_;
  LockPatience patience(kPortLockBound, s.names.lock());
  for (;;) {
    {
      const MutexLock guard(s.ports_mutex);
      if (s.abandoned) return ENODEV;
      const auto lock = MemberLock::try_take(s.names, s.table());
      if (lock) return Ports(s.table(), s.self).add(port, kind);
      if (lock.error() != EADDRINUSE) return lock.error();
    }
    const auto pause = patience.next_pause();
    if (!pause) return ETIMEDOUT;
    sleep_for(*pause);
  }
}

// Without the group's lock: an entry of ours is nobody else's to change, and whoever adds one at
// this moment sees it or does not.
void Membership::remove_port(const Port& port, Ports::Kind kind) {
  State& s = *state_;
  const MutexLock guard(s.ports_mutex);
  Ports(s.table(), s.self).remove(port, kind);
}

uint32_t Membership::incarnation_of(const wire::Gid& address, Qpn qpn) {
  state_->look();
  const auto slot = slot_of(qpn);
  return state_->local_receiver(address, slot) ? state_->incarnation[slot] : 0;
}

int Membership::join_group(const wire::Gid& group) {
  State& s = *state_;
  if (s.sockets(group.is_ipv4() ? Family::kIpv4 : Family::kIpv6) == nullptr) return EAFNOSUPPORT;
  return s.multicast_groups.join(group);
}

void Membership::leave_group(const wire::Gid& group) { state_->multicast_groups.leave(group); }

const UdpSockets* Membership::ipv4() const { return state_->sockets(Family::kIpv4); }
const UdpSockets* Membership::ipv6() const { return state_->sockets(Family::kIpv6); }
uint32_t Membership::receive_buffer() const { return state_->receive_buffer / 2; }
uint32_t Membership::receive_buffer_wanted() const {
  return state_->options.udp.receive_buffer_bytes;
}
uint16_t Membership::port() const { return state_->options.udp.port; }
const std::string& Membership::this_host_only() const { return state_->this_host_only; }
const std::string& Membership::name_held() const { return state_->name_held; }
LocalAddresses& Membership::addresses() { return state_->addresses; }
bool Membership::is_local(const wire::Gid& address) { return state_->addresses.contains(address); }
bool Membership::is_local_by_now(const wire::Gid& address) {
  return state_->addresses.contains_by_now(address);
}
int Membership::fd() const { return state_->epoll.get(); }

uint32_t Membership::members() const {
  state_->look();
  return state_->member_count;
}

uint32_t Membership::address_changes() const { return state_->addresses.changes(); }

const MembershipCounters& Membership::counters() const {
  state_->counters.credits_reclaimed = state_->ledger->reclaimed();
  return state_->counters;
}

MemberCounters& Membership::shown_counters() { return state_->table().counters[slot_]; }

void Membership::State::refresh() {
  // The generation first: a change while we read is seen the next time.
  seen_generation = table().generation.load(std::memory_order_acquire);
  member_count = 0;
  admitted_port = 0;
  senders.refresh(table(), self, monotonic_now());
  for (size_t i = kFirstSlot; i <= kLastSlot; ++i) {
    const SlotRecord& record = table().slots[i];
    incarnation[i] = record.incarnation.load(std::memory_order_acquire);
    reads_rings[i] =
        is_taken(incarnation[i]) && record.takes_rings.load(std::memory_order_relaxed) != 0;
    if (!is_taken(incarnation[i])) continue;
    ++member_count;
  }
  ledger->refresh();
}

void Membership::State::drop_own_sources() {
  if (const UdpSockets* const ipv6 = sockets(Family::kIpv6)) {
    link::drop_own_sources(ipv6->receive.get(), addresses.all());
  }
}

uint8_t Membership::State::sender_of(const wire::Gid& source, uint16_t port) {
  return addresses.contains(source) ? senders.member(family_of(source), port) : uint8_t{0};
}

void Membership::on_ready(DatagramHandler& handler) {
  State& s = *state_;
  s.handler = &handler;
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(s.epoll.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t data = events[static_cast<size_t>(i)].data.u64;
    switch (static_cast<uint32_t>(data >> 32)) {
      case kTagPeers: s.peers->on_ready(static_cast<uint32_t>(data), s); break;
      case kTagTimer: s.on_timer(); break;
      case kTagAddresses:
        s.addresses.on_ready();
        s.admitted_port = 0;
        s.drop_own_sources();
        s.multicast_groups.on_addresses_changed();
        break;
      default: break;
    }
  }
  s.handler = nullptr;
}

}  // namespace verbena::link
