// SPDX-License-Identifier: Apache-2.0
// The tables of a store as they are on its medium: found through the superblock, each chunk in two
// copies that are verified when they are first read.
//
//   superblock's extents   | 0 1 2 ... | ... | 0 1 ... | 0 ...      a table begins with number 0,
//                            newest            next      oldest     which has TABLE alone
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "store/log_reader.h"
#include "store/table.h"

namespace verbena::store {

class StoredTable final : public TableChunks {
 public:
  // Called with each chunk of which not both copies are good.
  using Seen = std::function<void(const LogChunk& chunk)>;
  StoredTable(const Superblock& root, std::vector<Extent> extents, ChunkMemory memory, Seen seen);

  // Reads its first chunk. If that fails, only chunks can be read, without head() and shape().
  [[nodiscard]] Result<void> open();
  [[nodiscard]] const std::optional<TableShape>& shape() const { return shape_; }
  [[nodiscard]] const TableRecord& head() const { return head_; }
  [[nodiscard]] const std::vector<Extent>& extents() const { return extents_; }
  // All its chunks, the first too.
  [[nodiscard]] uint64_t chunks() const { return count_; }

  [[nodiscard]] Result<std::span<const uint8_t>> records(uint64_t sequence) const override;
  [[nodiscard]] Error disorder(uint64_t sequence) const override;

 private:
  // By its number in the table, the first too.
  [[nodiscard]] Result<std::span<const uint8_t>> chunk(uint64_t number) const;
  [[nodiscard]] const Extent& extent_of(uint64_t number) const;

  const uint32_t store_;
  const uint32_t chunks_per_block_;
  std::vector<Extent> extents_;
  ChunkMemory memory_;
  Seen seen_;
  uint64_t count_ = 0;
  TableRecord head_;
  std::optional<TableShape> shape_;
  // Which copy was found good; 0: not looked at yet. Any thread may find it out.
  mutable std::unique_ptr<std::atomic<uint8_t>[]> good_;
};

class Tables {
 public:
  explicit Tables(ChunkMemory memory) : memory_(std::move(memory)) {}
  [[nodiscard]] const ChunkMemory& memory() const { return memory_; }
  // kDamaged where the superblock's extents are not those of tables, or a first chunk is lost.
  [[nodiscard]] Result<void> open(const Superblock& root, const StoredTable::Seen& seen = {});
  // For salvage: tables of which any chunk may be lost. There is nothing but stored() then.
  [[nodiscard]] Result<void> open_partial(const Superblock& root, const StoredTable::Seen& seen);
  [[nodiscard]] size_t count() const { return stored_.size(); }
  // The newest first.
  [[nodiscard]] std::span<const Table> all() const { return tables_; }
  [[nodiscard]] const StoredTable& stored(size_t i) const { return *stored_[i]; }
  // Objects' numbers are below this; 1 without tables.
  [[nodiscard]] uint64_t next_number() const;

  struct Found {
    size_t source = 0;  // of all()
    ObjectRecord object;
  };
  // What the newest table that has the object says; none if that is a DELETE.
  [[nodiscard]] Result<std::optional<Found>> find(uint64_t number) const;
  // Of a name that is not empty, or an id. Objects that are hidden are not looked at.
  template <typename Key>
  [[nodiscard]] Result<std::optional<Found>> find_by(
      const Key& key, const std::unordered_set<uint64_t>& hidden) const {
    for (size_t i = 0; i < tables_.size(); ++i) {
      const auto number = tables_[i].find(key);
      if (!number) return fail(number.error());
      if (!number->has_value() || hidden.contains(**number)) continue;
      const auto found = find(**number);
      if (!found) return fail(found.error());
      // Otherwise a newer one says otherwise.
      if (*found && (*found)->source == i) return *found;
    }
    return std::nullopt;
  }

 private:
  using Stored = std::vector<std::unique_ptr<StoredTable>>;
  [[nodiscard]] Result<Stored> find_stored(const Superblock& root,
                                           const StoredTable::Seen& seen) const;

  ChunkMemory memory_;
  Stored stored_;
  std::vector<Table> tables_;
};

}  // namespace verbena::store
