// SPDX-License-Identifier: Apache-2.0
#include "members_sim/world.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "link/roster.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::members_sim {
namespace {

constexpr uint32_t kNobody = 0;
constexpr uint64_t kMostSteps = 3'000'000;
constexpr size_t kMostMembers = 9;
// Less than a newcomer waits for those that do not answer before it looks further. Where somebody
// else has the names of members, several that come at once look for each other for some 30 ms.
constexpr Duration kJoinsWithin = 60 * kMillisecond;

// Names of their own: several simulators may run on a host, and one world leaves nothing to the
// next.
[[nodiscard]] std::string next_group() {
  static uint64_t worlds = 0;
  return "sim" + std::to_string(::getpid()) + "-" + std::to_string(++worlds);
}

}  // namespace

World::World(uint64_t seed, Tally& tally)
    : tally_(tally),
      scheduler_(seed),
      kernel_(scheduler_),
      parts_{scheduler_, kernel_, letters_, *this, next_group()} {
  kernel_.on_left = [this](uint32_t owner, std::span<const uint8_t> bytes) {
    Letters::Letter* const letter = letters_.find(bytes);
    if (letter == nullptr) return;
    letter->in_hand = owner;
    letters_.uncount(*letter);
  };
}

World::~World() {
  kernel_.on_left = nullptr;
  for (const auto& member : members_) member->bury();
}

void World::violation(const std::string& what) {
  violations_.push_back("at " + std::to_string(scheduler_.now() / kMicrosecond) + " us: " + what);
}

std::optional<Neighbourhood::Place> World::anybody() {
  std::vector<const Member*> there;
  for (const auto& member : members_) {
    if (member->has_joined()) there.push_back(member.get());
  }
  if (there.empty()) return std::nullopt;
  const Member& one = *there[draw(there.size())];
  return Place{one.process(), one.slot()};
}

bool World::stays(uint32_t process) {
  return !killed_.contains(process) && !members_[process - 1]->is_leaving();
}

std::optional<uint64_t> World::calm() {
  return any_stopped_ ? std::nullopt : std::optional(disturbances_);
}

void World::joined(uint32_t process, Duration took) {
  ++tally_.calm_joins;
  tally_.longest_join = std::max(tally_.longest_join, took);
  if (took <= kJoinsWithin) return;
  violation("process " + std::to_string(process) + " took " + std::to_string(took / kMicrosecond) +
            " us to join");
}

void World::port_taken(uint32_t process, uint64_t port) {
  const auto holder = ports_.find(port);
  if (holder != ports_.end() && !killed_.contains(holder->second)) {
    violation("processes " + std::to_string(holder->second) + " and " + std::to_string(process) +
              " have the same port");
  }
  ports_[port] = process;
}

void World::port_given_back(uint32_t process, uint64_t port) {
  if (ports_[port] == process) ports_.erase(port);
}

// --- what happens

void World::pause(Duration most) {
  scheduler_.sleep_until(scheduler_.now() +
                         static_cast<Duration>(draw(static_cast<uint64_t>(most))));
}

void World::squat() {
  const link::GroupNames names(parts_.group, link::UdpOptions{}.port);
  for (size_t slot = link::kFirstSlot; slot <= link::kLastSlot; ++slot) {
    const std::string name = names.member(static_cast<uint8_t>(slot));
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    VERBENA_CHECK(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&un), length) == 0);
    squatted_.push_back(std::move(fd));
  }
}

void World::start() {
  ++tally_.joins;
  const auto process = static_cast<uint32_t>(members_.size() + 1);
  members_.push_back(std::make_unique<Member>(parts_, process));
  Member& made = *members_.back();
  alive_.push_back(&made);
  const std::string name = std::to_string(process);
  scheduler_.spawn(process, "member " + name, [&made] { made.run(); });
  scheduler_.spawn(process, "ports " + name, [&made] { made.use_ports(); });
}

void World::kill(Member& victim) {
  ++tally_.kills;
  ++disturbances_;
  killed_.insert(victim.process());
  if (!victim.has_joined()) killed_joining_ = true;
  scheduler_.kill(victim.process());
  std::erase(alive_, &victim);
  kernel_.close_all(victim.process());
}

void World::kill_one() {
  // So long it takes to join, and to leave.
  constexpr Duration kAtIt = 400 * kMicrosecond;
  Member* victim = alive_[draw(alive_.size())];
  switch (draw(4)) {
    case 0:
      if (members_.size() >= kMostMembers) break;
      start();
      victim = alive_.back();
      pause(kAtIt);
      break;
    case 1:
      victim->ask_to_leave();
      pause(kAtIt);
      break;
    case 2:
      // One that has datagrams in the sockets of others, if there is one soon.
      for (int i = 0; i < 200; ++i) {
        const auto found = std::ranges::find_if(alive_, [this](const Member* one) {
          return letters_.are_on_the_way_from(one->process());
        });
        if (found != alive_.end()) {
          victim = *found;
          break;
        }
        pause(10 * kMicrosecond);
      }
      break;
    default: break;
  }
  if (!victim->has_left()) kill(*victim);
}

void World::faults() {
  for (uint64_t left = 3 + draw(6); left != 0; --left) {
    constexpr std::array<Duration, 3> kPauses{20 * kMicrosecond, 2 * kMillisecond,
                                              30 * kMillisecond};
    pause(kPauses[draw(kPauses.size())]);
    if (!squatted_.empty() && draw(8) == 0) squatted_.clear();
    std::erase_if(alive_, [](const Member* one) { return one->has_left(); });
    if (alive_.empty()) {
      start();
      continue;
    }
    Member& victim = *alive_[draw(alive_.size())];
    switch (draw(6)) {
      case 0:
        ++tally_.stops;
        ++disturbances_;
        any_stopped_ = true;
        scheduler_.stop(victim.process());
        pause(20 * kMillisecond);
        // What one sent that dies now is found when it goes on.
        if (draw(2) == 0) kill_one();
        scheduler_.go_on(victim.process());
        any_stopped_ = false;
        break;
      case 1:
      case 2:
        kill_one();
        if (draw(2) == 0 && !alive_.empty()) kill(*alive_[draw(alive_.size())]);
        break;
      case 3:
        ++tally_.leaves;
        victim.ask_to_leave();
        break;
      default:
        if (members_.size() < kMostMembers) start();
        break;
    }
  }
  faults_done_ = true;
}

bool World::all_done() const {
  return faults_done_ && std::ranges::all_of(alive_, [](const Member* one) {
           return one->has_left() || one->is_done();
         });
}

std::vector<std::string> World::run() {
  if (draw(4) == 0) squat();
  for (uint64_t i = 1 + draw(3); i != 0; --i) start();
  scheduler_.spawn(kNobody, "faults", [this] { faults(); });
  scheduler_.run(kMostSteps, [this] { return !violations_.empty() || all_done(); });
  if (violations_.empty() && !all_done()) {
    violation("somebody waits for ever; there are:" + scheduler_.who_sleeps());
    for (Member* const one : alive_) violation(one->describe());
  }
  if (violations_.empty()) run_to_rest();
  if (violations_.empty() && killed_joining_) {
    start();
    run_to_rest();
  }
  if (violations_.empty()) check_members();
  if (violations_.empty()) check_letters();
  if (violations_.empty()) check_credits();
  if (violations_.empty()) end();
  tally_.steps += scheduler_.steps();
  tally_.letters += letters_.all().size();
  for (const auto& member : members_) tally_.refusals += member->refusals();
  return violations_;
}

void World::run_to_rest() {
  scheduler_.run(kMostSteps, [this] { return !violations_.empty(); });
  if (violations_.empty() && scheduler_.can_go_on()) {
    violation("the host finds no rest:" + scheduler_.who_sleeps());
  }
  std::erase_if(alive_, [](const Member* one) { return one->has_left(); });
}

// --- when all is quiet

void World::check_members() {
  if (alive_.empty()) return;
  link::SharedTable& table = alive_.front()->membership().table();
  std::map<uint32_t, uint8_t> slots;
  for (Member* const one : alive_) {
    slots[one->process()] = one->slot();
    tally_.forwarded += one->membership().counters().forwarded;
    tally_.reaped += one->membership().counters().reaped;
    if (table.slots[one->slot()].suffix.load() != 0) ++tally_.suffixes;
    if (one->membership().members() != alive_.size()) {
      violation("process " + std::to_string(one->process()) + " knows of " +
                std::to_string(one->membership().members()) + " members, not of " +
                std::to_string(alive_.size()));
    }
  }
  std::vector<uint8_t> real;
  for (const uint32_t owner : kernel_.order()) real.push_back(slots[owner]);
  if (link::Roster(table).order(link::Family::kIpv4) != real) {
    violation("the table has another order of sockets than the kernel");
  }
  if (kernel_.program() != real) violation("the steering is for another order of sockets");
}

void World::check_letters() {
  for (const Letters::Letter& letter : letters_.all()) {
    if (letter.taken) continue;
    ++tally_.lost;
    const auto lives = [this](uint32_t process) {
      return std::ranges::find(alive_, process, &Member::process) != alive_.end();
    };
    const uint32_t with = letter.in_hand != 0 ? letter.in_hand : letter.from;
    const bool excused =
        !lives(letter.to) || killed_.contains(with) || (letter.refused && !lives(letter.from));
    if (!excused) {
      return violation("a datagram from " + std::to_string(letter.from) + " to " +
                       std::to_string(letter.to) + " is lost, last with " +
                       std::to_string(letter.in_hand) +
                       (letter.refused ? ", which refused it" : ""));
    }
  }
}

void World::check_credits() {
  // What is left of the dead and of what was lost is found by who looks, and again after a while.
  scheduler_.spawn(kNobody, "looks", [this] {
    for (int i = 0; i < 5; ++i) {
      for (Member* const one : alive_) one->nudge();
      scheduler_.sleep_until(scheduler_.now() + kSecond);
    }
  });
  run_to_rest();
  if (alive_.empty()) return;
  const link::SharedTable& table = alive_.front()->membership().table();
  for (const Member* const one : alive_) {
    const int64_t open = table.inboxes[one->slot()].outstanding.load();
    if (open != 0) {
      violation("process " + std::to_string(one->process()) + ": " + std::to_string(open) +
                " of its credits are lost");
    }
  }
}

void World::end() {
  scheduler_.spawn(kNobody, "ends", [this] {
    for (Member* const one : alive_) one->ask_to_leave();
  });
  run_to_rest();
  for (const auto& member : members_) {
    if (killed_.contains(member->process()) || member->has_left()) continue;
    violation("process " + std::to_string(member->process()) + " does not leave");
  }
  if (!violations_.empty()) return;
  if (!kernel_.order().empty()) violation("a socket is left");
  for (const auto& member : members_) {
    const size_t open = kernel_.open_descriptors(member->process());
    if (open == 0 || killed_.contains(member->process())) continue;
    violation("process " + std::to_string(member->process()) + " has left, with " +
              std::to_string(open) + " open descriptors");
  }
}

}  // namespace verbena::members_sim
