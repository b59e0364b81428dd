// SPDX-License-Identifier: Apache-2.0
// What a Domain consists of; for the files that implement it.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "memory/domain.h"
#include "memory/keys.h"

namespace verbena::memory {

struct Domain::Tables {
  Tables(RandomSource& random, const Options& with)
      : options(with),
        keys(random,
             with.limits.max_regions + with.limits.max_windows + with.limits.max_indirect_keys,
             with.strict_keys ? 2 : 1) {
    share.keys = &keys;
  }

  [[nodiscard]] bool has_pd(PdId pd) const { return pd_members.contains(pd.value); }
  void join_pd(PdId pd) { ++pd_members.at(pd.value); }
  void leave_pd(PdId pd) { --pd_members.at(pd.value); }
  // The region that `lkey` is the local key of, or nullptr.
  [[nodiscard]] Entry* find_region(LKey lkey) const;
  // The indirect key that one of whose keys this is, or nullptr.
  [[nodiscard]] Entry* find_indirect(uint32_t key) const;
  [[nodiscard]] Fault invalidate(Entry& key, PdId pd);
  // The window that `rkey` is, or was, a key of, or nullptr.
  [[nodiscard]] Entry* find_window(RKey rkey) const;

  Options options;
  KeyTable keys;
  IndirectShare share;
  std::unordered_map<const Entry*, std::unique_ptr<IndirectKey>> indirect;
  std::unordered_map<uint32_t, uint32_t> pd_members;  // regions, windows and keys in each PD
  uint32_t last_pd = 0;
  uint32_t regions = 0;
  uint32_t windows = 0;
};

}  // namespace verbena::memory
