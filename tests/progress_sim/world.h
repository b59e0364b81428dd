// SPDX-License-Identifier: Apache-2.0
// The processes of one host under a seed: their programs poll, arm, sleep on channels, spin on
// memory, pause and post, and destroy queue pairs and completion queues; processes fork, join,
// leave, are stopped and are killed at any step.
//
// What may not happen: a message that is lost or comes twice; a completion that waits for ever, or
// for long while everybody runs, or comes from a queue pair that is gone; more on its way to a
// receiver than it has room for; room or credits that do not come back, a dead member's among them;
// a host that finds no rest; a forked child that waits, or that anybody notices. Whoever touches a
// completion queue that is destroyed ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "progress_sim/host.h"
#include "progress_sim/process.h"
#include "progress_sim/scheduler.h"

namespace verbena::progress_sim {

struct Tally {
  uint64_t steps = 0;
  uint64_t messages = 0;
  uint64_t polled = 0;  // waits of each kind
  uint64_t slept = 0;
  uint64_t spun = 0;
  uint64_t stops = 0;
  uint64_t kills = 0;
  uint64_t joins = 0;
  uint64_t leaves = 0;
  uint64_t forks = 0;
  uint64_t queue_pairs = 0;  // destroyed with messages on their way
  uint64_t queues = 0;       // destroyed beside a thread that sleeps or polls
  uint64_t wakeups = 0;

  friend bool operator==(const Tally&, const Tally&) = default;
};

class World {
 public:
  World(uint64_t seed, Tally& tally);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // What was violated.
  [[nodiscard]] std::vector<std::string> run();

 private:
  // How a thread waits for completions.
  enum class Way : uint8_t { kPoll, kEvents, kMemory };

  void start(uint8_t slot);
  // A thread of the process's program.
  void run_program(Process& process, std::string name, void (World::*body)(Process&));
  void sender(Process& process);
  void receiver(Process& process);
  // Makes completion queues on the receiver's channel, and destroys them.
  void destroyer(Process& process);
  // Some of what was posted; nobody waits for longer than the bound.
  uint32_t wait_for(Process& process, device::CompletionQueue& cq,
                    device::CompletionChannel& channel, Way way);
  // Forks now and then.
  void forker(Process& process);
  void fork(Process& process);
  [[nodiscard]] std::vector<uint8_t> shared_state();
  // In the child; empty: all is well.
  [[noreturn]] void end_child(const std::string& what) const;
  void faults();
  [[nodiscard]] Process* one_to_kill();
  void kill(Process& victim);
  void leave(Process& leaver);
  void close(Process& process);
  void pause(Duration most);
  void pause_with_helper(uint8_t slot);
  void violation(const std::string& what);
  [[nodiscard]] uint64_t draw(uint64_t bound) { return scheduler_.random().below(bound); }

  static constexpr uint64_t kMostSteps = 3'000'000;
  void run_threads(const std::function<bool()>& done);
  void run_to_rest();
  void check_rest();

  Tally& tally_;
  Scheduler scheduler_;
  Host host_;
  std::vector<std::unique_ptr<Process>> processes_;  // the dead among them
  std::vector<Process*> alive_;
  uint32_t senders_ = 0;  // that are not done
  Time disturbed_ = 0;    // the last stop, death or continuation
  bool faults_done_ = false;
  bool killed_at_work_ = false;
  int child_says_ = -1;  // in a forked child, to its parent
  std::vector<std::string> violations_;
};

}  // namespace verbena::progress_sim
