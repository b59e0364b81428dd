// SPDX-License-Identifier: Apache-2.0
// The .txt beside a capture: which faults the relay put between the two ends, and what the
// responder's program (called "b" there) saw.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace verbena::golden {

// "relay: > op 0x07 #1 drop": what happened to the Nth packet of an opcode. Requests go '>'.
struct Fault {
  enum class Kind : uint8_t { kDrop, kDuplicate, kCorrupt, kDelay };
  bool to_responder = true;
  uint8_t opcode = 0;
  size_t nth = 0;
  Kind kind = Kind::kDrop;
  Duration delay = 0;
};

// A receive completion, in the numbers of verbs.h.
struct SeenCompletion {
  uint32_t status = 0;
  uint32_t opcode = 0;
  uint32_t length = 0;
  uint32_t imm = 0;
  friend bool operator==(const SeenCompletion&, const SeenCompletion&) = default;
};

struct Notes {
  std::vector<Fault> faults;
  std::optional<std::vector<SeenCompletion>> responder_completions;
  std::optional<uint32_t> responder_state;  // ibv_qp_state, in the end
  std::vector<uint8_t> responder_memory;    // first bytes of its buffer, in the end; may be empty
};

// What the file says; nothing where there is no file, or it is a tool's own output.
[[nodiscard]] Notes read_notes(const std::filesystem::path& path);

}  // namespace verbena::golden
