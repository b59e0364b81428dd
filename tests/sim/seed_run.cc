// SPDX-License-Identifier: Apache-2.0
#include "sim/seed_run.h"

#include <algorithm>

#include "sim/scenario.h"
#include "wire/pcap.h"

namespace verbena::sim {
namespace {

// Every seed does at least this much.
constexpr uint64_t kMinOperations = 60;
constexpr uint64_t kMinFaults = 5;
constexpr Duration kFaultyPhase = 100 * kMillisecond;
constexpr Duration kLongestFaultyPhase = 2 * kSecond;
// Partitions and the like begin within this time.
constexpr Duration kTroubles = 5 * kMillisecond;
// Within this time after the last fault everything is complete.
constexpr Duration kHealing = 20 * kSecond;

class Recorder final : public FrameTap {
 public:
  explicit Recorder(std::vector<uint8_t>& out) : writer_(out) {}
  void on_frame(const link::FrameEvent& event) override {
    if (event.kind == link::FrameEvent::Kind::kSent ||
        event.kind == link::FrameEvent::Kind::kCorrupted) {
      writer_.add(event.time, event.bytes);
    }
  }

 private:
  wire::PcapWriter writer_;
};

class Run {
 public:
  Run(uint64_t seed, Trace& trace, std::vector<uint8_t>* pcap) : world_(seed, trace) {
    if (pcap != nullptr) {
      recorder_ = std::make_unique<Recorder>(*pcap);
      world_.add_tap(*recorder_);
    }
    populate(world_, scenario_);
  }

  void run(SeedResult& result) {
    start();
    with_faults();
    heal();
    come_to_rest();
    check_memory();
    for (uint32_t i = 0; i < world_.hosts(); ++i) {
      SIM_REQUIRE(world_.endpoint(i).held_packets() == 0, "host %u still holds %u packets", i,
                  world_.endpoint(i).held_packets());
    }
    fill(result);
    SIM_REQUIRE(result.operations >= kMinOperations, "only %llu operations in this seed",
                static_cast<unsigned long long>(result.operations));
    SIM_REQUIRE(result.faults >= kMinFaults, "only %llu faults in this seed",
                static_cast<unsigned long long>(result.faults));
  }

  void fill(SeedResult& result) {
    result.operations = 0;
    for (const auto& pair : scenario_.rc) result.operations += pair->operations();
    for (const auto& pair : scenario_.uc) result.operations += pair->operations();
    for (const auto& sacrifice : scenario_.sacrifices) result.operations += sacrifice->operations();
    if (scenario_.ud != nullptr) result.operations += scenario_.ud->operations();
    result.faults = world_.faults().counts().total() + world_.network().blocked_frames();
    result.packets = world_.network().frames_sent();
    result.attacks = scenario_.attacker->strikes();
    result.scenes = world_.scenes();
    for (uint32_t i = 0; i < world_.hosts(); ++i) {
      for (size_t c = 0; c < transport::kCounters; ++c) {
        result.counters.add(static_cast<transport::Counter>(c),
                            world_.endpoint(i).counters().at(c));
      }
    }
  }

 private:
  void start() {
    for (auto& pool : scenario_.srq_pools) pool->start();
    for (auto& pair : scenario_.rc) pair->start();
    for (auto& pair : scenario_.uc) pair->start();
    if (scenario_.ud != nullptr) scenario_.ud->start();
    for (auto& sacrifice : scenario_.sacrifices) sacrifice->start();
    scenario_.attacker->start(static_cast<Duration>(world_.draw(20'000, 1'000'000)));
    schedule_troubles(world_, scenario_, kTroubles);
    world_.dispatch();
  }

  // Until the work of this phase is posted, or for as long as a phase may last.
  void with_faults() {
    const auto posted = [&] {
      return std::ranges::all_of(scenario_.rc,
                                 [](const auto& pair) { return pair->budget_spent(); });
    };
    world_.run(kFaultyPhase, posted);
    const Duration more = static_cast<Duration>(world_.draw(0, 5'000'000));
    world_.run(std::max(world_.now(), Time{kTroubles}) + more, [] { return false; });
    SIM_REQUIRE(world_.now() < kLongestFaultyPhase, "the phase of faults has no end");
  }

  void heal() {
    if (world_.trace().printing()) world_.trace().say("---- healed ----");
    scenario_.healed = true;
    world_.faults().set_rates({});
    for (uint32_t a = 0; a < world_.hosts(); ++a) {
      for (uint32_t b = 0; b < world_.hosts(); ++b) world_.network().set_blocked(a, b, false);
    }
    scenario_.attacker->stop();
    for (auto& pool : scenario_.srq_pools) pool->be_prompt();
    for (auto& pair : scenario_.rc) pair->finish(static_cast<uint32_t>(world_.draw(3, 10)));
    if (scenario_.ud != nullptr) scenario_.ud->finish();
    for (auto& sacrifice : scenario_.sacrifices)
      sacrifice->finish(static_cast<uint32_t>(world_.draw(1, 4)));
    const Time limit = world_.now() + kHealing;
    const auto done = [&] {
      return std::ranges::all_of(scenario_.rc, [](const auto& pair) { return pair->done(); }) &&
             std::ranges::all_of(scenario_.uc, [](const auto& pair) { return pair->done(); }) &&
             std::ranges::all_of(scenario_.sacrifices, [](const auto& s) { return s->done(); }) &&
             (scenario_.ud == nullptr || scenario_.ud->done());
    };
    if (world_.run(limit, done)) return;
    for (size_t i = 0; i < scenario_.rc.size(); ++i) {
      RcPair& pair = *scenario_.rc[i];
      SIM_REQUIRE(
          pair.done(),
          "connection %zu is not done %lld ms after the last fault: %zu and %zu requests open", i,
          static_cast<long long>(kHealing / kMillisecond), pair.lane(0).outstanding(),
          pair.lane(1).outstanding());
    }
    violate("the work is not done long after the last fault");
  }

  // Nothing is left to do: no packet on its way, no timer running.
  void come_to_rest() {
    const Time limit = world_.now() + kHealing;
    world_.run(limit, [] { return false; });
    for (uint32_t i = 0; i < world_.hosts(); ++i) {
      SIM_REQUIRE(world_.endpoint(i).next_deadline() == kNever,
                  "host %u has nothing to do and a timer runs", i);
    }
    SIM_REQUIRE(world_.silent(), "the network is not silent though everything is done");
  }

  void check_memory() {
    for (auto& pair : scenario_.rc) {
      pair->lane(0).check_settled();
      pair->lane(1).check_settled();
    }
    scenario_.shared->check();
    for (auto& pair : scenario_.uc) pair->check_targets();
    if (scenario_.ud != nullptr) scenario_.ud->check();
    for (uint32_t i = 0; i < world_.hosts(); ++i) {
      const size_t at = world_.arena(i).first_difference();
      SIM_REQUIRE(at == world_.arena(i).size(),
                  "byte %zu of host %u's memory changed and should not have", at, i);
    }
  }

  World world_;
  Scenario scenario_;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace

SeedResult run_seed(uint64_t seed, bool print, std::vector<uint8_t>* pcap) {
  SeedResult result;
  Trace trace(print);
  try {
    Run run(seed, trace, pcap);
    try {
      run.run(result);
      result.good = true;
    } catch (const Violation& violation) {
      result.violated = violation.what();
      run.fill(result);
    }
  } catch (const Violation& violation) {
    result.violated = violation.what();
  }
  result.hash = trace.hash();
  result.events = trace.events();
  return result;
}

}  // namespace verbena::sim
