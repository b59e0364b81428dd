// SPDX-License-Identifier: Apache-2.0
// Communication ids: the slot in the top byte, and below it a number in a secret order. So none
// comes again before all 2^24 were used, and who has not seen them cannot tell the next.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/secret_order.h"
#include "cm/types.h"

namespace verbena::cm {

class CommIdSequence {
 public:
  CommIdSequence(uint8_t slot, RandomSource& random)
      : slot_(uint32_t{slot} << kBits), order_(random) {}

  [[nodiscard]] CommId next() {
    for (;;) {
      const uint32_t low = order_.next();
      if (low != 0) return CommId(slot_ | low);  // 0 is none, also in slot 0
    }
  }

 private:
  static constexpr uint32_t kBits = 24;

  uint32_t slot_;
  SecretOrder<kBits> order_;
};

}  // namespace verbena::cm
