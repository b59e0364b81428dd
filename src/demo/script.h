// SPDX-License-Identifier: Apache-2.0
// Faults by script: the Nth packet of an opcode meets a certain fate, the others pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "link/faults.h"

namespace verbena::demo {

struct Mishap {
  enum class Kind : uint8_t { kLose, kDouble, kCorrupt, kHoldBack };
  uint8_t opcode = 0;
  uint32_t which = 1;  // counted from 1
  Kind kind = Kind::kLose;
};

class ScriptedFaults final : public link::FaultSource {
 public:
  explicit ScriptedFaults(std::vector<Mishap> mishaps) : mishaps_(std::move(mishaps)) {}
  [[nodiscard]] link::Fate judge(std::span<const uint8_t> frame) override;
  void corrupt(std::span<uint8_t> frame) override;
  // Mishaps that happened.
  [[nodiscard]] uint32_t happened() const { return happened_; }

 private:
  std::vector<Mishap> mishaps_;
  std::vector<uint32_t> seen_ = std::vector<uint32_t>(256);
  uint32_t happened_ = 0;
};

}  // namespace verbena::demo
