// SPDX-License-Identifier: Apache-2.0
// What a Domain consists of; for the files that implement it.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "memory/domain.h"
#include "memory/keys.h"

namespace verbena::memory {

struct Domain::Tables {
  Tables(RandomSource& random, const Options& with)
      : options(with),
        keys(random, with.limits.max_regions + with.limits.max_windows, with.strict_keys ? 2 : 1) {}

  [[nodiscard]] bool has_pd(PdId pd) const { return pd_members.contains(pd.value); }
  void join_pd(PdId pd) { ++pd_members.at(pd.value); }
  void leave_pd(PdId pd) { --pd_members.at(pd.value); }
  // The region that `lkey` is the local key of, or nullptr.
  [[nodiscard]] Entry* find_region(LKey lkey) const;
  // The window that `rkey` is, or was, a key of, or nullptr.
  [[nodiscard]] Entry* find_window(RKey rkey) const;

  Options options;
  KeyTable keys;
  std::unordered_map<uint32_t, uint32_t> pd_members;  // regions and windows in each PD
  uint32_t last_pd = 0;
  uint32_t regions = 0;
  uint32_t windows = 0;
};

}  // namespace verbena::memory
