// SPDX-License-Identifier: Apache-2.0
// Two words that many lanes work on at once: a counter (FETCH-ADD of 1) and a chain (COMPARE-SWAP).
// Nobody can foretell what one request finds, but all together must make sense: the counter's
// values are handed out once each, and the successful swaps form one chain from the first value to
// the last.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/world.h"

namespace verbena::sim {

class SharedWords {
 public:
  struct Attempt {
    bool swap = false;
    uint64_t compare = 0;
    uint64_t value = 0;  // to swap in
  };

  SharedWords(World& world, uint32_t host);

  [[nodiscard]] uint32_t host() const { return host_; }
  [[nodiscard]] const Region& region() const { return region_; }
  [[nodiscard]] Range counter() const { return {region_.range.offset, 8}; }
  [[nodiscard]] Range chain() const { return {region_.range.offset + 8, 8}; }

  [[nodiscard]] Attempt attempt();
  // The request completed, and this is what it found.
  void found(const Attempt& attempt, uint64_t original);
  // The connection broke under it: it happened, or it did not.
  void lost(const Attempt& attempt);
  void check();

 private:
  void check_counter(uint64_t final_value) const;
  void check_chain(uint64_t final_value) const;

  World& world_;
  uint32_t host_;
  Region region_;
  uint64_t next_value_ = 1;
  uint64_t last_seen_ = 0;
  std::vector<uint64_t> handed_out_;
  uint64_t lost_adds_ = 0;
  std::vector<Attempt> swapped_;
  std::vector<Attempt> lost_swaps_;
};

}  // namespace verbena::sim
