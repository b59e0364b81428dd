// SPDX-License-Identifier: Apache-2.0
#include "link/faults.h"

namespace verbena::link {

Fate::Copy RandomFaults::trouble() {
  Fate::Copy copy;
  if (random_.chance_ppm(rates_.reorder_ppm)) {
    ++counts_.reordered;
    copy.wait +=
        1 + static_cast<Duration>(random_.below(static_cast<uint64_t>(rates_.reorder_span)));
  }
  if (random_.chance_ppm(rates_.delay_ppm)) {
    ++counts_.delayed;
    copy.wait += 1 + static_cast<Duration>(random_.below(static_cast<uint64_t>(rates_.long_delay)));
  }
  if (random_.chance_ppm(rates_.corrupt_ppm)) {
    ++counts_.corrupted;
    copy.corrupted = true;
  }
  copy.marked = rates_.mark_ppm != 0 && random_.chance_ppm(rates_.mark_ppm);
  return copy;
}

Fate RandomFaults::judge(std::span<const uint8_t> /*frame*/) {
  Fate fate;
  if (random_.chance_ppm(rates_.loss_ppm)) {
    ++counts_.lost;
    fate.copies = 0;
    return fate;
  }
  fate.copy[0] = trouble();
  if (random_.chance_ppm(rates_.duplicate_ppm)) {
    ++counts_.duplicated;
    fate.copies = 2;
    fate.copy[1] = trouble();
  }
  return fate;
}

// No more than three bits: that many are always found by a CRC-32 over one frame, so that a
// corrupted frame which is taken for good is a fault of the receiver and never chance.
void RandomFaults::corrupt(std::span<uint8_t> frame) {
  if (frame.empty()) return;
  const uint64_t flips = 1 + random_.below(3);
  for (uint64_t i = 0; i < flips; ++i) {
    const uint64_t bit = random_.below(frame.size() * 8);
    frame[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

}  // namespace verbena::link
