// SPDX-License-Identifier: Apache-2.0
// World: processes that fork. The child is a real one. It runs at once, alone, and ends; nobody on
// the host may notice that it was there.
#include <array>
#include <cstddef>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "progress_sim/world.h"

namespace verbena::progress_sim {
namespace {

constexpr uint32_t kForks = 3;  // of one process
constexpr Duration kLongPause = 40 * kMillisecond;

}  // namespace

// What members see of each other.
std::vector<uint8_t> World::shared_state() {
  const link::SharedTable& table = host_.table();
  std::vector<uint8_t> all;
  const auto add = [&all](const void* from, size_t bytes) {
    const auto* const begin = static_cast<const uint8_t*>(from);
    all.insert(all.end(), begin, begin + bytes);
  };
  add(&table, offsetof(link::SharedTable, credits));
  for (size_t slot = 0; slot < Process::kPeers; ++slot) {
    add(table.credits[slot].data(), Process::kPeers * sizeof(link::CreditPair));
  }
  add(&table.doorbells, sizeof table.doorbells);
  for (const Process* const process : alive_) {
    for (const bool readable : process->readable()) all.push_back(readable ? 1 : 0);
  }
  return all;
}

void World::forker(Process& process) {
  for (uint32_t i = 0; i < kForks && !process.leaving; ++i) {
    pause(draw(2) == 0 ? 500 * kMicrosecond : kLongPause);
    fork(process);
  }
}

void World::fork(Process& process) {
  ++tally_.forks;
  process.before_fork();
  std::optional<Scheduler::Alone> alone(std::in_place);
  std::array<int, 2> ends{};
  VERBENA_CHECK(::pipe(ends.data()) == 0);
  const std::vector<uint8_t> before = shared_state();
  const pid_t child = ::fork();
  VERBENA_CHECK(child >= 0);
  if (child == 0) {
    alone.reset();
    child_says_ = ends[1];
    process.after_fork_in_child();
    process.use_in_child();
    end_child({});
  }
  ::close(ends[1]);
  std::array<char, 256> said{};
  const ssize_t length = ::read(ends[0], said.data(), said.size());
  ::close(ends[0]);
  int status = 0;
  VERBENA_CHECK(::waitpid(child, &status, 0) == child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    violation("a forked child: " + (length > 0 ? std::string(said.data(), size_t(length))
                                               : std::string("ended by a signal")));
  }
  if (shared_state() != before) violation("a forked child changed what its parent's host shares");
  alone.reset();
  process.after_fork_in_parent();
}

void World::end_child(const std::string& what) const {
  if (!what.empty()) (void)!::write(child_says_, what.data(), what.size());
  ::_exit(what.empty() && violations_.empty() ? 0 : 1);
}

void World::run_threads(const std::function<bool()>& done) {
  scheduler_.run(kMostSteps, done);
  if (child_says_ < 0) return;
  end_child(violations_.empty() ? "waits for ever" : violations_.back());
}

}  // namespace verbena::progress_sim
