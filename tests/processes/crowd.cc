// SPDX-License-Identifier: Apache-2.0
#include "processes/crowd.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/shared_table.h"
#include "support/test_link.h"

namespace verbena::processes {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

device::EngineOptions engine_options(uint16_t port, const std::string& group) {
  device::EngineOptions options;
  options.host.udp.port = port;
  options.host.group = group;
  options.link = testing::test_link();
  return options;
}

device::EngineOptions own_engine_options() {
  static uint32_t next = 0;
  ++next;
  const auto pid = static_cast<uint32_t>(::getpid());
  // These tests run twice, perhaps side by side: over sockets they have the odd ports.
  const uint32_t odd = testing::test_link() == link::LinkKind::kUdp ? 1 : 0;
  return engine_options(static_cast<uint16_t>(26'000 + 2 * ((pid * 13 + next) % 3'000) + odd),
                        "vcrowd" + std::to_string(pid) + "-" + std::to_string(next));
}

bool wait_until(const std::function<bool()>& condition, Duration bound) {
  const Time deadline = link::monotonic_now() + bound;
  while (!condition()) {
    if (link::monotonic_now() > deadline) return false;
    ::usleep(500);
  }
  return true;
}

std::string leftovers(const link::MembershipOptions& host) {
  std::string found;
  const auto scan = [&found](const char* path, const std::string& wanted) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (line.find(wanted) != std::string::npos) found += std::string(path) + ": " + line + "\n";
    }
  };
  scan("/proc/net/unix", "@" + host.group + ".");
  std::array<char, 16> port{};
  (void)std::snprintf(port.data(), port.size(), ":%04X ", host.udp.port);
  scan("/proc/net/udp", port.data());
  scan("/proc/net/udp6", port.data());
  return found;
}

Crowd::Crowd(MemberOptions options, Before before)
    : options_(std::move(options)), before_(std::move(before)), board_(make_board()) {}

Crowd::~Crowd() {
  for (uint32_t seat = 0; seat < kSeats; ++seat) {
    if (pids_[seat] <= 0) continue;
    ::kill(pids_[seat], SIGKILL);
    reap(seat);
  }
  drop_board(board_);
}

void Crowd::start(uint32_t seat, uint32_t host) {
  Seat& place = board_->seats[seat];
  place.host = host;
  place.leave = place.left = place.finish = place.finished = 0;
  ++place.incarnation;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    if (before_) before_(seat);
    live(*board_, seat, options_);
    ::_exit(0);
  }
  pids_[seat] = pid;
}

void Crowd::reap(uint32_t seat) {
  ::waitpid(pids_[seat], nullptr, 0);
  pids_[seat] = 0;
}

void Crowd::kill(uint32_t seat) {
  // Said before it is done: an error that a survivor sees is never too early.
  board_->seats[seat].doomed = board_->seats[seat].incarnation.load();
  ::kill(pids_[seat], SIGKILL);
  reap(seat);
}

void Crowd::stop(uint32_t seat) {
  ::kill(pids_[seat], SIGSTOP);
  ::waitpid(pids_[seat], nullptr, WUNTRACED);
}

void Crowd::go_on(uint32_t seat) { ::kill(pids_[seat], SIGCONT); }

void Crowd::leave(uint32_t seat) {
  board_->seats[seat].doomed = board_->seats[seat].incarnation.load();
  board_->seats[seat].leave = 1;
  reap(seat);
}

bool Crowd::finish() {
  const auto who = sitting();
  for (const uint32_t seat : who) board_->seats[seat].finish = 1;
  const bool done = eventually([&] {
    return std::ranges::all_of(who,
                               [&](uint32_t seat) { return board_->seats[seat].finished == 1; });
  });
  if (!done) return false;
  for (const uint32_t seat : who) board_->seats[seat].leave = 1;
  for (const uint32_t seat : who) reap(seat);
  return failure().empty();
}

std::vector<uint32_t> Crowd::sitting() const {
  std::vector<uint32_t> seats;
  for (uint32_t seat = 0; seat < kSeats; ++seat) {
    if (pids_[seat] > 0) seats.push_back(seat);
  }
  return seats;
}

bool Crowd::talk(uint32_t a, uint32_t b) const {
  const auto one_way = [this](uint32_t from, uint32_t to) {
    const Seat& seat = board_->seats[from];
    return seat.joined == seat.incarnation &&
           seat.rounds_with_peer[to] == board_->seats[to].incarnation && seat.rounds_with[to] > 0;
  };
  return one_way(a, b) && one_way(b, a);
}

bool Crowd::all_talk() const {
  const auto who = sitting();
  for (const uint32_t a : who) {
    for (const uint32_t b : who) {
      if (a < b && !talk(a, b)) return false;
    }
  }
  return true;
}

uint64_t Crowd::rounds_with(uint32_t from, const std::vector<uint32_t>& with) const {
  uint64_t sum = 0;
  for (const uint32_t to : with) sum += board_->seats[from].rounds_with[to];
  return sum;
}

std::string Crowd::failure() const {
  for (const Seat& seat : board_->seats) {
    if (seat.failed != 0) return seat.failure.data();
  }
  return {};
}

::testing::AssertionResult Crowd::eventually(const std::function<bool()>& condition) const {
  const bool came = wait_until([&] { return !failure().empty() || condition(); });
  if (!failure().empty()) return ::testing::AssertionFailure() << failure();
  if (!came) return ::testing::AssertionFailure() << "it did not come to pass";
  return ::testing::AssertionSuccess();
}

}  // namespace verbena::processes
