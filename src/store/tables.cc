// SPDX-License-Identifier: Apache-2.0
#include "store/tables.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbena::store {
namespace {

constexpr uint8_t kCopyA = 1;
constexpr uint8_t kCopyB = 2;

Error lost(const LogChunk& chunk) {
  return {Code::kDamaged,
          fmt::format("both copies of chunk {} of a table of the index are damaged; `verbena "
                      "salvage` builds a new store from what can be read",
                      chunk.number()),
          chunk.differ ? copies_damage(chunk) : copy_damage(chunk, false)};
}

Error no_tables(const char* actual) {
  return {Code::kDamaged,
          "the superblock does not list the index; `verbena salvage` builds a new store from what "
          "can be read",
          {{}, 0, 0, "superblock", "extents of tables", actual}};
}

}  // namespace

StoredTable::StoredTable(const Superblock& root, std::vector<Extent> extents, ChunkMemory memory,
                         Seen seen)
    : store_(root.store),
      chunks_per_block_(root.chunks_per_block),
      extents_(std::move(extents)),
      memory_(std::move(memory)),
      seen_(std::move(seen)) {
  for (const Extent& extent : extents_) count_ += extent.count;
  good_ = std::make_unique<std::atomic<uint8_t>[]>(count_);
}

Result<void> StoredTable::open() {
  const auto first = chunk(0);
  if (!first) return fail(first.error());
  RecordReader reader(*first);
  if (reader.done()) return fail(no_tables("an empty chunk"));
  const auto record = reader.next();
  const auto* const head = record ? std::get_if<TableRecord>(&*record) : nullptr;
  if (head == nullptr || !reader.done()) return fail(no_tables("another record"));
  if (TableShape{head->chunks}.all() + 1 != count_) return fail(no_tables("another size"));
  head_ = *head;
  shape_ = TableShape{head->chunks};
  return {};
}

const Extent& StoredTable::extent_of(uint64_t number) const {
  return *std::prev(std::ranges::upper_bound(
      extents_, number, {}, [](const Extent& extent) { return number_in_table(extent.sequence); }));
}

Result<std::span<const uint8_t>> StoredTable::chunk(uint64_t number) const {
  const Extent& extent = extent_of(number);
  const auto i = static_cast<uint32_t>(number - number_in_table(extent.sequence));
  const auto place = [&](uint32_t block) {
    return uint64_t{block} * chunks_per_block_ + extent.first + i;
  };
  // Relaxed: what it says was true of the medium before, and is after.
  uint8_t good = good_[number].load(std::memory_order_relaxed);
  if (good == 0) {
    const LogChunk found = read_chunk(store_, chunks_per_block_, extent, i, kFlagCheckpoint,
                                      memory_, seen_ ? Copies::kBoth : Copies::kFirstGood);
    if (seen_ && (!found.a || !found.b || found.differ)) seen_(found);
    if (found.good == nullptr || found.differ) return fail(lost(found));
    good = found.a ? kCopyA : kCopyB;
    good_[number].store(good, std::memory_order_relaxed);
  }
  const uint8_t* const memory = memory_(place(good == kCopyA ? extent.block_a : extent.block_b));
  return std::span<const uint8_t>(memory, std::min<size_t>(head_of(memory).length, kDataBytes));
}

Result<std::span<const uint8_t>> StoredTable::records(uint64_t sequence) const {
  return chunk(sequence + 1);
}

Error StoredTable::disorder(uint64_t sequence) const {
  const uint64_t number = sequence + 1;
  const Extent& extent = extent_of(number);
  return {Code::kDamaged,
          fmt::format("chunk {} of a table of the index is not in order; `verbena salvage` builds "
                      "a new store from what can be read",
                      number),
          {{},
           number * kChunkBytes,
           uint64_t{extent.block_a} * chunks_per_block_ + extent.first + number -
               number_in_table(extent.sequence),
           "checkpoint",
           "records in order",
           "out of order"}};
}

// As the superblock lists them.
Result<Tables::Stored> Tables::find_stored(const Superblock& root,
                                           const StoredTable::Seen& seen) const {
  Stored stored;
  for (size_t i = 0; i < root.checkpoint.size();) {
    uint64_t next = root.checkpoint[i].sequence;
    if (number_in_table(next) != 0 || table_serial(next) == 0) {
      return fail(no_tables("out of order"));
    }
    std::vector<Extent> extents;
    for (; i < root.checkpoint.size() && root.checkpoint[i].sequence == next; ++i) {
      extents.push_back(root.checkpoint[i]);
      next += root.checkpoint[i].count;
    }
    stored.push_back(std::make_unique<StoredTable>(root, std::move(extents), memory_, seen));
  }
  return stored;
}

Result<void> Tables::open(const Superblock& root, const StoredTable::Seen& seen) {
  auto stored = find_stored(root, seen);
  if (!stored) return fail(stored.error());
  std::vector<Table> tables;
  for (const auto& table : *stored) {
    if (const auto done = table->open(); !done) return done;
    tables.emplace_back(*table->shape(), *table);
  }
  stored_ = std::move(*stored);
  tables_ = std::move(tables);
  return {};
}

Result<void> Tables::open_partial(const Superblock& root, const StoredTable::Seen& seen) {
  auto stored = find_stored(root, seen);
  if (!stored) return fail(stored.error());
  for (const auto& table : *stored) static_cast<void>(table->open());
  stored_ = std::move(*stored);
  return {};
}

uint64_t Tables::next_number() const {
  uint64_t next = 1;
  for (const auto& table : stored_) next = std::max(next, table->head().next_number);
  return next;
}

Result<std::optional<Tables::Found>> Tables::find(uint64_t number) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const auto state = tables_[i].find(number);
    if (!state) return fail(state.error());
    if (!state->has_value()) continue;
    if ((*state)->gone) return std::nullopt;
    return Found{i, (*state)->object};
  }
  return std::nullopt;
}

}  // namespace verbena::store
