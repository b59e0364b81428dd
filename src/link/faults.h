// SPDX-License-Identifier: Apache-2.0
// Faults of a network, drawn from one seeded source: the same each time for one seed. What becomes
// of a frame is decided here; carrying it out (dropping, sending twice, waiting, flipping bits) is
// the link's.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/time.h"

namespace verbena::link {

// Chances per frame, in parts per million.
struct FaultRates {
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;
  uint32_t reorder_ppm = 0;  // waits up to reorder_span: later frames overtake it
  uint32_t delay_ppm = 0;    // waits up to long_delay
  uint32_t corrupt_ppm = 0;  // one to three bits are flipped, anywhere in the frame
  uint32_t mark_ppm = 0;     // has met congestion (ECN), if it can be marked
  Duration reorder_span = 50 * kMicrosecond;
  Duration long_delay = 5 * kMillisecond;
};

// What becomes of one frame: 0 (lost), 1 or 2 (duplicated) copies, each with its own trouble.
struct Fate {
  struct Copy {
    Duration wait = 0;  // beyond the link's own delay
    bool corrupted = false;
    bool marked = false;
  };
  uint32_t copies = 1;
  std::array<Copy, 2> copy{};
};

struct FaultCounts {
  uint64_t lost = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t delayed = 0;
  uint64_t corrupted = 0;
  uint64_t blocked = 0;  // by a partition

  [[nodiscard]] uint64_t total() const {
    return lost + duplicated + reordered + delayed + corrupted + blocked;
  }
};

class FaultSource {
 public:
  virtual ~FaultSource() = default;
  [[nodiscard]] virtual Fate judge(std::span<const uint8_t> frame) = 0;
  virtual void corrupt(std::span<uint8_t> frame) = 0;
};

class RandomFaults final : public FaultSource {
 public:
  RandomFaults(RandomSource& random, const FaultRates& rates) : random_(random), rates_(rates) {}

  void set_rates(const FaultRates& rates) { rates_ = rates; }
  [[nodiscard]] const FaultRates& rates() const { return rates_; }
  [[nodiscard]] Fate judge(std::span<const uint8_t> frame) override;
  void corrupt(std::span<uint8_t> frame) override;
  [[nodiscard]] const FaultCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] Fate::Copy trouble();

  RandomSource& random_;
  FaultRates rates_;
  FaultCounts counts_;
};

}  // namespace verbena::link
