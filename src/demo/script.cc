// SPDX-License-Identifier: Apache-2.0
#include "demo/script.h"

#include "wire/network.h"

namespace verbena::demo {

link::Fate ScriptedFaults::judge(std::span<const uint8_t> frame) {
  link::Fate fate;
  const auto parts = wire::dissect(frame);
  if (!parts || parts->transport.empty()) return fate;
  const uint8_t opcode = parts->transport[0];
  const uint32_t number = ++seen_[opcode];
  for (const Mishap& mishap : mishaps_) {
    if (mishap.opcode != opcode || mishap.which != number) continue;
    ++happened_;
    switch (mishap.kind) {
      case Mishap::Kind::kLose:     fate.copies = 0; break;
      case Mishap::Kind::kDouble:   fate.copies = 2; break;
      case Mishap::Kind::kCorrupt:  fate.copy[0].corrupted = true; break;
      case Mishap::Kind::kHoldBack: fate.copy[0].wait = 40 * kMicrosecond; break;
    }
  }
  return fate;
}

void ScriptedFaults::corrupt(std::span<uint8_t> frame) {
  // One bit, near the end: in the payload, or in the ICRC itself.
  if (frame.size() > 8) frame[frame.size() - 8] ^= 0x10;
}

}  // namespace verbena::demo
