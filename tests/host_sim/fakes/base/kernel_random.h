// SPDX-License-Identifier: Apache-2.0
// In place of src/base/kernel_random.h: numbers of the seed.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "progress_sim/scheduler.h"

namespace verbena {

class SimulatedKernelRandom final : public RandomSource {
 public:
  [[nodiscard]] int seed() {
    random_ = SeededRandom(progress_sim::Scheduler::current()->random().next());
    return 0;
  }
  [[nodiscard]] uint64_t next() override { return random_.next(); }

 private:
  SeededRandom random_{0};
};
using KernelRandom = SimulatedKernelRandom;

}  // namespace verbena
