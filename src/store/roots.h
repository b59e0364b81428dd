// SPDX-License-Identifier: Apache-2.0
// The two copies of the superblock: which of them is the root, and what a crash, damage or another
// history of the store (a copy that was written to) has made of the other. They are written one
// after the other, with a sync in between:
//
//   opening                        b, then a
//   extending, checkpoint          a, then b
//   closing                        a, with the last of the log, then b
//
// So one copy may be one generation behind, or incomplete. Anything else is no work of a crash. Of
// a closed store copy a is never incomplete.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "store/error.h"
#include "store/superblock.h"

namespace verbena::store {

enum class RootCopy : uint8_t {
  kCurrent,   // is the root
  kBeside,    // valid: writing it, or the other one, was interrupted
  kTorn,      // not valid, as a crash may leave it
  kDamaged,   // not valid
  kElsewhere  // valid, but of another store, another history or another time
};

struct Roots {
  Superblock root;
  bool closed = false;  // for certain: copy b, written when all was durable, is not incomplete
  RootCopy a = RootCopy::kDamaged;
  RootCopy b = RootCopy::kDamaged;
};

// How far the medium has what a superblock lists. `other` is the one that contradicts it.
struct RootSupport {
  uint64_t valid = 0;      // copies of log and checkpoint chunks
  uint64_t exclusive = 0;  // of these, in extents that the other superblock does not list
  bool possible = true;    // there is one of all that must be there
  bool whole = true;       // and both of them
};
using SupportOf = std::function<RootSupport(const Superblock& root, const Superblock& other)>;

// The root, and the state of both copies. Without `support` superblocks that contradict each other
// are taken by their generation: for whoever needs the shape of the store alone.
[[nodiscard]] Result<Roots> read_roots(std::span<const uint8_t, kChunkBytes> a,
                                       std::span<const uint8_t, kChunkBytes> b,
                                       const SupportOf& support = {});
// The state of the copy in block 0 or 1, where this is the root.
[[nodiscard]] RootCopy judge_copy(std::span<const uint8_t, kChunkBytes> copy, uint32_t block,
                                  const Superblock& root);
// A superblock where it belongs: at the beginning of block 0 or of block 1.
[[nodiscard]] verbena::Result<Superblock, SuperblockFault> read_root(
    std::span<const uint8_t, kChunkBytes> chunk, uint32_t block);
// What is wrong with a copy: for those that are not kCurrent or kBeside.
[[nodiscard]] Damage root_damage(uint64_t chunk, RootCopy state);

}  // namespace verbena::store
