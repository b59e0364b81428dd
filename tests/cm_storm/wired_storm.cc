// SPDX-License-Identifier: Apache-2.0
#include "cm_storm/wired_storm.h"

#include <memory>
#include <vector>

namespace verbena::cm_storm {
namespace {

constexpr Duration kWiredStormLength = 5 * kSecond;
// The slowest that may happen, one after the other: as in storm.cc, and a peer that is found gone
// after 70 s.
constexpr Time kWiredBound = 500 * kSecond;
constexpr Duration kLettingGo = 60 * kSecond;

class WiredStorm {
 public:
  WiredStorm(uint64_t seed, sim::Trace& trace) : world_(seed, trace) {
    const Duration far = half() ? 100 * kMicrosecond : 20 * kMillisecond;
    world_.make_network({.delay = kMicrosecond + up_to(far),
                         .bits_per_second = half() ? 0u : 1'000'000'000u,
                         .queue = kMillisecond},
                        draw_faults());
    config_.listener_grace = half() ? 0 : 250 * kMillisecond;
    config_.max_half_open = half() ? 4096 : 8;
    const auto hosts = static_cast<uint8_t>(world_.draw(2, 4));
    const bool ipv4 = half();
    for (uint8_t i = 0; i < hosts; ++i) add_station(i, ipv4);
  }

  void run(WiredOutcome& outcome) {
    outcome.connects = plan_connects();
    plan_troubles();
    plan_watch();
    const auto never = [] { return false; };
    (void)world_.run(kWiredBound, never);
    for (const auto& station : stations_) {
      if (!station->dead()) station->require_agreement();
    }
    for (const auto& station : stations_) {
      if (!station->dead()) station->release_all();
    }
    (void)world_.run(world_.now() + kLettingGo, never);
    for (const auto& station : stations_) {
      if (!station->dead()) station->require_nothing_left();
    }
  }

  void describe(WiredOutcome& outcome) {
    outcome.sights = sights_;
    outcome.packets = world_.network().frames_sent();
    outcome.faults = world_.faults().counts().total() + world_.network().blocked_frames();
  }

 private:
  [[nodiscard]] bool half() { return world_.chance(50); }
  [[nodiscard]] Duration up_to(Duration most) {
    return static_cast<Duration>(world_.draw(0, static_cast<uint64_t>(most)));
  }
  [[nodiscard]] uint32_t ppm_up_to(uint32_t most) {
    return static_cast<uint32_t>(world_.draw(0, most));
  }

  [[nodiscard]] link::FaultRates draw_faults() {
    link::FaultRates rates;
    if (half()) rates.loss_ppm = ppm_up_to(200'000);
    if (half()) rates.duplicate_ppm = ppm_up_to(200'000);
    if (half()) rates.reorder_ppm = ppm_up_to(500'000);
    if (half()) rates.delay_ppm = ppm_up_to(50'000);
    if (half()) rates.corrupt_ppm = ppm_up_to(50'000);
    rates.reorder_span = up_to(10 * kMillisecond);
    rates.long_delay = up_to(half() ? 100 * kMillisecond : 10 * kSecond);
    return rates;
  }

  [[nodiscard]] Manners draw_manners() {
    Manners manners{.stay_ppm = ppm_up_to(900'000), .life = up_to(20 * kSecond)};
    if (half()) manners.think = up_to(half() ? 100 * kMillisecond : 10 * kSecond);
    if (half()) manners.reject_ppm = ppm_up_to(200'000);
    if (half()) manners.hasty_ppm = ppm_up_to(200'000);
    if (half()) manners.destroy_ppm = ppm_up_to(500'000);
    return manners;
  }

  void add_station(uint8_t i, bool ipv4) {
    link::NodeOptions options;
    options.address = wire::Gid::from_ipv4(10, 0, 0, static_cast<uint8_t>(i + 1));
    if (!ipv4) options.address = {{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, i}};
    options.max_poll_delay = half() ? 0 : 20 * kMicrosecond;
    const uint32_t host = world_.add_host(options, Station::kMemoryBytes);
    config_.slot = static_cast<uint8_t>(i + 1);
    config_.ca_guid = i + 1;
    stations_.push_back(std::make_unique<Station>(
        world_, host, config_, draw_manners(), sights_,
        [this](uint32_t which) -> Station& { return *stations_[which]; }));
  }

  [[nodiscard]] uint64_t plan_connects() {
    const uint64_t count = world_.draw(20, 100);
    for (uint64_t i = 0; i < count; ++i) {
      const auto from = static_cast<uint32_t>(world_.draw(0, stations_.size() - 1));
      const auto to = static_cast<uint32_t>(world_.draw(0, stations_.size() - 1));
      world_.at(up_to(kWiredStormLength), [this, from, to] { stations_[from]->connect(to); });
    }
    return count;
  }

  void set_cut_off(uint32_t victim, bool cut_off) {
    for (uint32_t i = 0; i < stations_.size(); ++i) {
      const link::PortId other = world_.node(i).port();
      const link::PortId port = world_.node(victim).port();
      world_.network().set_blocked(port, other, cut_off);
      world_.network().set_blocked(other, port, cut_off);
    }
  }

  // A host is cut off: for a while, or dead.
  void plan_troubles() {
    if (half()) return;
    const auto victim = static_cast<uint32_t>(world_.draw(0, stations_.size() - 1));
    const Time when = up_to(10 * kSecond);
    const bool dies = half();
    world_.at(when, [this, victim, dies] {
      set_cut_off(victim, true);
      if (dies) stations_[victim]->die();
    });
    if (dies) return;
    world_.at(when + up_to(60 * kSecond), [this, victim] { set_cut_off(victim, false); });
  }

  void plan_watch() {
    for (Time when = kSecond; when < kWiredBound; when += kSecond) {
      world_.at(when, [this] {
        for (const auto& station : stations_) station->watch_peers();
      });
    }
  }

  sim::World world_;
  cm::Config config_;
  Sights sights_;
  std::vector<std::unique_ptr<Station>> stations_;
};

}  // namespace

WiredOutcome run_wired_storm(uint64_t seed, bool trace) {
  WiredOutcome outcome;
  sim::Trace happened(trace);
  WiredStorm storm(seed, happened);
  try {
    storm.run(outcome);
  } catch (const sim::Violation& violation) {
    outcome.violation = violation.what();
  }
  storm.describe(outcome);
  outcome.hash = happened.hash();
  return outcome;
}

}  // namespace verbena::cm_storm
