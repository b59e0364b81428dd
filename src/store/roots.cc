// SPDX-License-Identifier: Apache-2.0
#include "store/roots.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace verbena::store {
namespace {

bool same_store(const Superblock& a, const Superblock& b) {
  return a.store == b.store && a.chunks_per_block == b.chunks_per_block && a.media == b.media &&
         a.created_ns == b.created_ns;
}

// Closing writes copy a with the last of the log: that it is closed holds once copy b says so, too.
bool closing(const Superblock& a, const Superblock& b) {
  Superblock expected = b;
  ++expected.generation;
  expected.durable = a.durable;
  expected.end = a.end;
  return a.closed() && !b.closed() && a.durable >= b.durable && a == expected;
}

// Whether `older` was the root right before `newer`, and the copy that has the newer one is that
// which is written first.
bool precedes(const Superblock& older, const Superblock& newer, bool newer_is_a) {
  if (!same_store(older, newer) || older.generation + 1 != newer.generation) return false;
  if (newer.mark == older.mark) return newer_is_a && !newer.closed() && !older.closed();
  return !newer_is_a && newer.previous == older.mark;
}

// Whether `newer` took back the root that came after `older`, or that itself, because a sync had
// failed (Log::retract).
bool undone(const Superblock& older, const Superblock& newer) {
  return same_store(older, newer) && older.mark == newer.mark && !newer.closed() &&
         newer.generation - older.generation - 1 < 2;
}

// A crash leaves these two, or a medium that failed.
bool agree(const Superblock& a, const Superblock& b) {
  return a == b || closing(a, b) || precedes(a, b, false) || precedes(b, a, true) || undone(a, b) ||
         undone(b, a);
}

bool lists(const Superblock& root, uint64_t mark) {
  const auto has = [mark](const Extent& extent) { return extent.txn == mark; };
  return root.previous == mark || std::ranges::any_of(root.checkpoint, has) ||
         std::ranges::any_of(root.log, has);
}

bool newer(const Superblock& one, const Superblock& other) {
  return std::tuple(one.epoch(), one.generation) > std::tuple(other.epoch(), other.generation);
}

enum class Choice : uint8_t { kA, kB, kNeither };

// Two that contradict each other. That of another store, or of another history, does not find its
// own chunks; an older one of this history must not be taken for the newest.
Choice choose(const Superblock& a, const Superblock& b, const SupportOf& support) {
  const RootSupport of_a = support(a, b);
  const RootSupport of_b = support(b, a);
  if (!same_store(a, b)) return of_b.valid > of_a.valid ? Choice::kB : Choice::kA;
  if (a.mark == b.mark) {
    if (a.generation == b.generation) return Choice::kNeither;
    return a.generation > b.generation ? Choice::kA : Choice::kB;
  }
  const bool newest_a = newer(a, b);
  const Superblock& later = newest_a ? a : b;
  const Superblock& earlier = newest_a ? b : a;
  const Choice latest = newest_a ? Choice::kA : Choice::kB;
  if (lists(later, earlier.mark) && earlier.generation < later.generation) {
    return (newest_a ? of_a : of_b).possible ? latest : Choice::kNeither;
  }
  if (of_a.possible != of_b.possible) return of_a.possible ? Choice::kA : Choice::kB;
  const auto stands = [](const RootSupport& root) { return root.whole && root.exclusive > 0; };
  if (!of_a.possible || (!stands(of_a) && !stands(of_b))) return Choice::kNeither;
  if (stands(of_a) && stands(of_b)) return latest;
  return stands(of_a) ? Choice::kA : Choice::kB;
}

Error two_histories(const Superblock& a, const Superblock& b) {
  return {Code::kDamaged,
          "the two superblocks belong to different histories of the store: a file or directory of "
          "it was replaced by that of a copy or of a backup; `verbena salvage` builds a new store "
          "from what can be read",
          {{},
           0,
           b.chunks_per_block,
           "superblock",
           fmt::format("generation {}, transaction {:#x}", a.generation, a.mark),
           fmt::format("generation {}, transaction {:#x}", b.generation, b.mark)}};
}

Error none(SuperblockFault a, SuperblockFault b) {
  if (a == SuperblockFault::kVersion || b == SuperblockFault::kVersion) {
    return {Code::kVersion,
            fmt::format("the store has another format version than {} and {}, which this program "
                        "supports; use the version of verbena that made it",
                        kFormatVersion, kCacheVersion),
            {}};
  }
  if (a == SuperblockFault::kMagic && b == SuperblockFault::kMagic) {
    return {Code::kNoStore, "not a store: the superblocks have the wrong magic number", {}};
  }
  return {Code::kDamaged,
          fmt::format("both superblocks are damaged ({}, {}); `verbena salvage` builds a "
                      "new store from what can be read",
                      name_of(a), name_of(b)),
          {{}, 0, 0, "superblock", "a superblock", name_of(a)}};
}

}  // namespace

verbena::Result<Superblock, SuperblockFault> read_root(std::span<const uint8_t, kChunkBytes> chunk,
                                                       uint32_t block) {
  auto root = decode_superblock(chunk);
  if (root && head_of(chunk.data()).id != uint64_t{block} * root->chunks_per_block) {
    return fail(SuperblockFault::kShape);
  }
  return root;
}

RootCopy judge_copy(std::span<const uint8_t, kChunkBytes> copy, uint32_t block,
                    const Superblock& root) {
  const auto there = read_root(copy, block);
  if (there) {
    if (*there == root) return RootCopy::kCurrent;
    return (block == 0 ? agree(*there, root) : agree(root, *there)) ? RootCopy::kBeside
                                                                    : RootCopy::kElsewhere;
  }
  if (block == 0 && root.closed()) return RootCopy::kDamaged;
  // The first root of a store is written where anything may be.
  const bool first = root.generation == 1;
  const uint64_t id = uint64_t{block} * root.chunks_per_block;
  return first || may_be_torn(copy, id, root) ? RootCopy::kTorn : RootCopy::kDamaged;
}

Result<Roots> read_roots(std::span<const uint8_t, kChunkBytes> a,
                         std::span<const uint8_t, kChunkBytes> b, const SupportOf& support) {
  const auto first = read_root(a, 0);
  const auto second = read_root(b, 1);
  if (!first && !second) return fail(none(first.error(), second.error()));
  bool take_a = first.has_value();
  if (first && second) {
    if (agree(*first, *second) || !support) {
      take_a = !closing(*first, *second) && first->generation >= second->generation;
    } else {
      const Choice choice = choose(*first, *second, support);
      if (choice == Choice::kNeither) return fail(two_histories(*first, *second));
      take_a = choice == Choice::kA;
    }
  }
  Roots roots;
  roots.root = take_a ? *first : *second;
  roots.a = judge_copy(a, 0, roots.root);
  roots.b = judge_copy(b, 1, roots.root);
  // One from elsewhere is no work of a crash: then nothing is taken for the end of the log.
  roots.closed =
      roots.root.closed() && (roots.b == RootCopy::kCurrent || roots.b == RootCopy::kElsewhere);
  return roots;
}

Damage root_damage(uint64_t chunk, RootCopy state) {
  if (state == RootCopy::kElsewhere) {
    return {{},
            0,
            chunk,
            "superblock",
            "the same as its other copy",
            "one of another store, of another history of this one, or of another time"};
  }
  return {{}, 0, chunk, "superblock", "a valid superblock", "not valid"};
}

}  // namespace verbena::store
