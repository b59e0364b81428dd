// SPDX-License-Identifier: Apache-2.0
// One operation on a store, as data: drawn from a seed, told to people, done to a store and to the
// model of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "model.h"
#include "store/store.h"

namespace verbena::store::trial {

struct Operation {
  enum class Kind : uint8_t {
    kCreate,
    kRemove,
    kRename,
    kReplace,
    kTruncate,
    kWrite,
    kPreparedWrite,
    kClone,
    kFlush,
    kCheckpoint,
    kCompact,
  };
  // What the device does that a prepared write is for.
  enum class Device : uint8_t {
    kPlain,        // puts the bytes there
    kCrcInChunks,  // and the CRC of each whole chunk
    kMessageCrc,   // and the caller has the message's CRC
    kBothCrcs,
    kWrongMessage,    // the message's CRC is not that of what arrived
    kWrongChunkCrc,   // nor is that of a chunk
    kNeverCommitted,  // the caller is gone
  };
  Kind kind = Kind::kFlush;
  ObjectId id{};  // of clones: from
  ObjectId to{};  // of replace: by
  std::string name{};
  uint64_t offset = 0;
  uint64_t length = 0;  // of truncate: the size
  uint64_t to_offset = 0;
  bool allow_existing = false;
  Device device = Device::kPlain;
  uint64_t data_seed = 0;
};

// Whether all that was done before is durable when it returns.
[[nodiscard]] inline bool makes_durable(const Operation& operation) {
  using Kind = Operation::Kind;
  return operation.kind == Kind::kFlush || operation.kind == Kind::kCheckpoint ||
         operation.kind == Kind::kCompact;
}

[[nodiscard]] std::string describe(const Operation& operation);
[[nodiscard]] std::string describe(const Refusal& refusal);

// The bytes of a write. Some are all zeros: those are data, no hole.
[[nodiscard]] std::vector<uint8_t> bytes_of(const Operation& operation);

[[nodiscard]] Refusal apply(Model& model, const Operation& operation);
// What the store says; `why`, if not null, is its sentence.
[[nodiscard]] Refusal apply(Store& store, const Operation& operation, std::string* why = nullptr);

// Puts the bytes of one message where a prepared write wants them, or takes them from a prepared
// read's pieces.
void scatter(std::span<const Scatter> pieces, std::span<const uint8_t> bytes);
[[nodiscard]] std::vector<uint8_t> gather(std::span<const Scatter> pieces);
[[nodiscard]] uint32_t crc(std::span<const uint8_t> bytes);

// What to draw.
struct Profile {
  uint64_t objects = 8;                // at most, more or less
  uint64_t object_bytes = 256 * 1024;  // so long do they become by writes
  uint64_t write_bytes = 64 * 1024;    // so long is one
  uint64_t sparse_bytes = uint64_t{1}
                          << 40;  // so far out may a few writes and truncates be; 0: none
  uint32_t flush_per_mille = 60;
  uint32_t checkpoint_per_mille = 5;
  uint32_t nonsense_per_mille = 60;  // that must be refused
};
[[nodiscard]] Operation draw(RandomSource& random, const Model& model, const Profile& profile);

}  // namespace verbena::store::trial
