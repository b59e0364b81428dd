// SPDX-License-Identifier: Apache-2.0
// What the receiver sends back, in our mode: messages of at most kMaxReplyBytes.
//
//   reply   | type u8 | fields ... |
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "transfer/records.h"

namespace verbena::transfer {

inline constexpr size_t kMaxReplyBytes = 4096;
inline constexpr size_t kCrcsInReply = 1000;
inline constexpr size_t kFilesInReply = 1000;

// Its slots, one behind the other; each is free at first, and holds a chunk and kSlotExtraBytes.
struct Offer {
  static constexpr uint8_t kType = 1;
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t chunk_bytes = 0;
  uint16_t slots = 0;
  uint64_t max_file_bytes = 0;
  static void fields(auto& self, auto& f) {
    f(self.address, self.rkey, self.chunk_bytes, self.slots, self.max_file_bytes);
  }
};
// The slot is free again.
struct Ready {
  static constexpr uint8_t kType = 2;
  uint16_t slot = 0;
  static void fields(auto& self, auto& f) { f(self.slot); }
};
// Of a file whose transfer was broken off: the CRCs of chunks that are there, from `first` on.
struct Have {
  static constexpr uint8_t kType = 3;
  struct Crc {
    static constexpr size_t kMinBytes = 4;
    uint32_t value = 0;
    static void fields(auto& self, auto& f) { f(self.value); }
  };
  FileId file = 0;
  uint64_t first = 0;
  bool last = false;  // no more of these follow
  std::vector<Crc> crcs{};
  static void fields(auto& self, auto& f) {
    f(self.file, self.first, self.last);
    f.list(self.crcs);
  }
};
enum class Verdict : uint8_t {
  kStored = 0,
  kExists = 1,     // and may not be replaced
  kRefused = 2,    // its name, size, or number
  kFull = 3,       // no room
  kFailed = 4,     // another error of the receiver's system
  kDamaged = 5,    // a CRC is wrong
  kAbandoned = 6,  // by the sender
};
[[nodiscard]] constexpr bool is_defined(Verdict verdict) { return verdict <= Verdict::kAbandoned; }
// What became of a file that is not stored.
struct Done {
  static constexpr uint8_t kType = 4;
  FileId file = 0;
  Verdict verdict = Verdict::kStored;
  std::string_view text{};
  static void fields(auto& self, auto& f) {
    f(self.file, self.verdict);
    f.text(self.text);
  }
};
// Files that are stored: many of them in one message, as small files end many at once.
struct Stored {
  static constexpr uint8_t kType = 7;
  struct Id {
    static constexpr size_t kMinBytes = 4;
    FileId value = 0;
    static void fields(auto& self, auto& f) { f(self.value); }
  };
  std::vector<Id> files{};
  static void fields(auto& self, auto& f) { f.list(self.files); }
};
// The connection ends: why.
struct Bye {
  static constexpr uint8_t kType = 5;
  std::string_view text{};
  static void fields(auto& self, auto& f) { f.text(self.text); }
};

// The receiver is still there: it works, or waits for the sender.
struct Alive {
  static constexpr uint8_t kType = 6;
  static void fields(auto& /*self*/, auto& /*f*/) {}
};

using Reply = std::variant<Offer, Ready, Have, Done, Stored, Bye, Alive>;

[[nodiscard]] std::vector<uint8_t> encode(const Reply& reply);
// Views point into `bytes`.
[[nodiscard]] protocol::Decoded<Reply> decode_reply(std::span<const uint8_t> bytes);

}  // namespace verbena::transfer
