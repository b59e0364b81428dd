// SPDX-License-Identifier: Apache-2.0
// Everything about a world that its seed decides before it starts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/attacker.h"
#include "sim/rc_pair.h"
#include "sim/sacrifice.h"
#include "sim/shared_words.h"
#include "sim/uc_pair.h"
#include "sim/ud_group.h"
#include "sim/world.h"

namespace verbena::sim {

struct Scenario {
  std::unique_ptr<SharedWords> shared;
  std::vector<std::unique_ptr<RecvPool>> srq_pools;
  std::vector<std::unique_ptr<RcPair>> rc;
  std::vector<std::unique_ptr<UcPair>> uc;
  std::unique_ptr<UdGroup> ud;
  std::vector<std::unique_ptr<Sacrifice>> sacrifices;
  std::unique_ptr<Attacker> attacker;
  bool healed = false;
};

void populate(World& world, Scenario& scenario);
void schedule_troubles(World& world, Scenario& scenario, Duration within);

}  // namespace verbena::sim
