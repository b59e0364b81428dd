// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario.h"

#include <algorithm>

namespace verbena::sim {
namespace {

using transport::Mtu;

[[nodiscard]] wire::Psn draw_psn(World& world) {
  // Often so near the end of the 24 bits that a connection must wrap.
  if (world.chance(60))
    return wire::Psn(wire::Psn::kMask - static_cast<uint32_t>(world.draw(0, 300)));
  return wire::Psn(static_cast<uint32_t>(world.random().next()));
}

[[nodiscard]] link::FaultRates draw_rates(World& world) {
  link::FaultRates rates;
  // Each fault is absent, rare or common, on its own.
  const auto rate = [&](uint32_t rare, uint32_t common) -> uint32_t {
    const uint64_t dice = world.draw(0, 9);
    return dice < 2 ? 0 : dice < 6 ? rare : common;
  };
  rates.loss_ppm = rate(10'000, 80'000);
  rates.duplicate_ppm = rate(10'000, 80'000);
  rates.reorder_ppm = rate(20'000, 150'000);
  rates.delay_ppm = rate(1'000, 10'000);
  rates.corrupt_ppm = rate(5'000, 50'000);
  rates.mark_ppm = rate(5'000, 50'000);
  // No seed is without: at least some loss.
  if (rates.loss_ppm + rates.duplicate_ppm + rates.corrupt_ppm < 60'000) rates.loss_ppm += 50'000;
  rates.reorder_span = static_cast<Duration>(world.draw(2'000, 200'000));
  rates.long_delay = static_cast<Duration>(world.draw(500'000, 5'000'000));
  return rates;
}

[[nodiscard]] transport::Tuning draw_tuning(World& world) {
  transport::Tuning tuning;
  if (world.chance(30)) return tuning;
  tuning.flight.max_bytes = static_cast<uint32_t>(world.draw(8, 512)) * 1024;
  tuning.flight.initial_bytes =
      static_cast<uint32_t>(world.draw(4 * 1024, tuning.flight.max_bytes));
  tuning.flight.max_packets = static_cast<uint32_t>(world.draw(2, 128));
  tuning.flight.ack_every = static_cast<uint32_t>(world.draw(1, 32));
  tuning.hold_buffers = static_cast<uint32_t>(world.chance(25)   ? 0
                                              : world.chance(25) ? world.draw(1, 8)
                                                                 : 256);
  tuning.quantum = static_cast<uint32_t>(world.chance(30) ? 1 : world.draw(2, 64));
  tuning.min_probe = static_cast<Duration>(world.draw(100'000, 1'000'000));
  tuning.first_probe = static_cast<Duration>(world.draw(1'000'000, 5'000'000));
  return tuning;
}

void make_hosts(World& world) {
  link::LinkSpeed speed;
  speed.delay = static_cast<Duration>(world.draw(500, 40'000));
  // A slow link now and then, on which hosts find no room to send.
  const uint64_t gigabits = world.chance(30) ? world.draw(1, 10) : world.draw(10, 200);
  speed.bits_per_second = world.chance(20) ? 0 : gigabits * 1'000'000'000;
  speed.queue = static_cast<Duration>(world.draw(2'000, 200'000));
  world.make_network(speed, draw_rates(world));
  const uint64_t hosts = world.chance(50) ? 2 : world.draw(3, 4);
  const bool ipv4 = world.chance(60);
  for (uint64_t i = 0; i < hosts; ++i) {
    link::NodeOptions options;
    const auto number = static_cast<uint8_t>(i + 1);
    options.address = ipv4 ? wire::Gid::from_ipv4(10, 0, 0, number)
                           : wire::Gid{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number}};
    options.limits.max_qps = 64;
    options.limits.max_srqs = 8;
    options.tuning = draw_tuning(world);
    options.memory.limits = {.max_pds = 16, .max_regions = 1024, .max_windows = 1024};
    options.memory.strict_keys = world.chance(30);
    options.max_poll_delay = static_cast<Duration>(world.chance(30) ? 0 : world.draw(100, 30'000));
    options.max_batch = static_cast<uint32_t>(world.chance(30) ? 1 : world.draw(2, 64));
    world.add_host(options, size_t{8} << 20);
  }
}

[[nodiscard]] RcPairSpec draw_pair(World& world, bool sturdy) {
  RcPairSpec spec;
  spec.sturdy = sturdy;
  spec.host[0] = static_cast<uint32_t>(world.draw(0, world.hosts() - 1));
  spec.host[1] =
      static_cast<uint32_t>((spec.host[0] + world.draw(1, world.hosts() - 1)) % world.hosts());
  const auto mtu = static_cast<Mtu>(world.draw(1, 5));
  const uint32_t mtu_bytes = transport::mtu_bytes(mtu);
  spec.lane.mtu = mtu_bytes;
  // Up to 40 packets; rarely many more.
  const uint32_t most = world.chance(4) ? 128 * 1024 : 40 * 1024;
  const auto packets = static_cast<uint32_t>(world.chance(30) ? 40 : world.draw(2, 40));
  spec.lane.max_message = std::min(packets * mtu_bytes, most);
  spec.lane.depth = static_cast<uint32_t>(world.draw(3, 24));
  spec.lane.max_sge = static_cast<uint32_t>(world.draw(1, 4));
  spec.lane.max_inline = static_cast<uint32_t>(world.draw(16, 200));
  spec.lane.signal_all = world.chance(20);
  spec.lane.zero_based_target = world.chance(20);
  spec.pool.slots = static_cast<uint32_t>(world.draw(2, 10));
  spec.pool.slot_bytes = spec.lane.max_message + static_cast<uint32_t>(world.draw(0, 64));
  spec.pool.max_sge = static_cast<uint32_t>(world.draw(1, 4));
  spec.pool.late_percent = world.chance(40) ? 40 : 0;
  spec.pool.max_late = static_cast<Duration>(world.draw(10'000, 2'000'000));
  spec.pace = static_cast<Duration>(world.draw(5'000, 300'000));
  spec.budget = static_cast<uint32_t>(world.draw(30, 50));
  for (uint32_t end : {0u, 1u}) {
    Terms& terms = spec.terms[end];
    terms.mtu = mtu;
    terms.send_psn = draw_psn(world);
    spec.terms[1 - end].recv_psn = terms.send_psn;
    terms.max_rd_atomic = static_cast<uint8_t>(world.draw(1, 8));
    spec.terms[1 - end].max_dest_rd_atomic =
        static_cast<uint8_t>(terms.max_rd_atomic + world.draw(0, 4));
    terms.source_port = static_cast<uint16_t>(0xc000 + world.draw(0, 0x3fff));
    terms.may_be_marked = world.chance(50);
    terms.min_rnr_timer = static_cast<uint8_t>(world.draw(1, 14));
    terms.timeout = static_cast<uint8_t>(sturdy ? world.draw(12, 15) : world.draw(6, 10));
    if (sturdy && world.chance(10)) terms.timeout = 0;
    terms.retry_count = static_cast<uint8_t>(sturdy ? 7 : world.draw(0, 3));
    terms.rnr_retry = static_cast<uint8_t>(sturdy ? 7 : world.draw(0, 6));
  }
  return spec;
}

// Receives of one host that several connections share.
void share_receives(World& world, Scenario& scenario, std::vector<RcPairSpec>& specs) {
  const auto host = static_cast<uint32_t>(world.draw(0, world.hosts() - 1));
  uint32_t longest = 0;
  for (const RcPairSpec& spec : specs) longest = std::max(longest, spec.lane.max_message);
  PoolSpec pool;
  pool.slots = static_cast<uint32_t>(world.draw(4, 12));
  pool.slot_bytes = longest;
  pool.late_percent = 30;
  scenario.srq_pools.push_back(std::make_unique<RecvPool>(world, host, pool));
  transport::SharedRecvQueue* const srq = scenario.srq_pools.back()->make_srq();
  for (RcPairSpec& spec : specs) {
    for (uint32_t end : {0u, 1u}) {
      if (spec.host[end] != host) continue;
      spec.shared_pool[end] = scenario.srq_pools.back().get();
      spec.srq[end] = srq;
    }
  }
}

}  // namespace

void populate(World& world, Scenario& scenario) {
  make_hosts(world);
  scenario.shared =
      std::make_unique<SharedWords>(world, static_cast<uint32_t>(world.draw(0, world.hosts() - 1)));
  std::vector<RcPairSpec> specs;
  specs.push_back(draw_pair(world, true));
  const uint64_t more = world.draw(0, 2);
  for (uint64_t i = 0; i < more; ++i) specs.push_back(draw_pair(world, world.chance(40)));
  if (world.chance(35)) share_receives(world, scenario, specs);
  for (const RcPairSpec& spec : specs) {
    scenario.rc.push_back(std::make_unique<RcPair>(world, spec, scenario.shared.get()));
  }
  if (world.chance(50)) {
    UcSpec spec;
    spec.host[0] = static_cast<uint32_t>(world.draw(0, world.hosts() - 1));
    spec.host[1] = static_cast<uint32_t>((spec.host[0] + 1) % world.hosts());
    spec.mtu = static_cast<Mtu>(world.draw(1, 4));
    spec.max_message = static_cast<uint32_t>(world.draw(1, 8)) * transport::mtu_bytes(spec.mtu);
    spec.pool.slots = 6;
    spec.pool.slot_bytes = spec.max_message;
    spec.pool.late_percent = 20;
    spec.psn[0] = draw_psn(world);
    spec.psn[1] = draw_psn(world);
    scenario.uc.push_back(std::make_unique<UcPair>(world, spec));
  }
  if (world.chance(50)) {
    UdSpec spec;
    spec.max_payload = static_cast<uint32_t>(world.draw(64, 2048));
    scenario.ud = std::make_unique<UdGroup>(world, spec);
    world.add_tap(*scenario.ud);
  }
  const auto requester = static_cast<uint32_t>(world.draw(0, world.hosts() - 1));
  scenario.sacrifices.push_back(std::make_unique<Sacrifice>(
      world, requester, (requester + 1) % world.hosts(), static_cast<uint32_t>(world.draw(1, 4))));
  scenario.attacker = std::make_unique<Attacker>(world, scenario.ud.get());
  for (auto& pair : scenario.rc) scenario.attacker->target(*pair);
  for (auto& sacrifice : scenario.sacrifices) {
    for (const End& end : sacrifice->ends()) scenario.attacker->spare(end);
  }
  world.add_tap(*scenario.attacker);
}

void schedule_troubles(World& world, Scenario& scenario, Duration within) {
  const auto moment = [&] {
    return world.now() + static_cast<Duration>(world.draw(0, static_cast<uint64_t>(within)));
  };
  const uint64_t partitions = world.draw(0, 2);
  for (uint64_t i = 0; i < partitions; ++i) {
    const auto a = static_cast<uint32_t>(world.draw(0, world.hosts() - 1));
    const auto b = static_cast<uint32_t>((a + world.draw(1, world.hosts() - 1)) % world.hosts());
    const bool both_ways = world.chance(60);
    const Time from = moment();
    // Sturdy connections outlast it: the shortest of theirs gives up after 8 x 16.8 ms.
    const Time to = from + static_cast<Duration>(world.draw(50'000, 60'000'000));
    for (const bool blocked : {true, false}) {
      world.at(blocked ? from : to, [&world, &scenario, a, b, both_ways, blocked] {
        if (scenario.healed) return;
        if (world.trace().printing())
          world.trace().say("partition %u -> %u: %s", a, b, blocked ? "begins" : "ends");
        world.network().set_blocked(world.node(a).port(), world.node(b).port(), blocked);
        if (both_ways)
          world.network().set_blocked(world.node(b).port(), world.node(a).port(), blocked);
      });
    }
  }
  for (auto& pair : scenario.rc) {
    if (world.chance(50)) {
      world.at(moment(), [&world, &pair] { pair->drain(static_cast<uint32_t>(world.draw(0, 1))); });
    }
    if (!pair->sturdy() && world.chance(50)) world.at(moment(), [&pair] { pair->break_off(); });
  }
}

}  // namespace verbena::sim
