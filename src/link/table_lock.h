// SPDX-License-Identifier: Apache-2.0
// Mutual exclusion among those who have the shared table: a lock in it, which nobody else can hold.
// The kernel gives it up when its holder dies (a robust mutex); what that has left half done, the
// next one mends (roster.h).
#pragma once

#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::link {

class TableLock {
 public:
  TableLock(TableLock&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {}
  TableLock& operator=(TableLock&& other) noexcept {
    std::swap(table_, other.table_);
    return *this;
  }
  // By the thread that took it, while the table is mapped.
  ~TableLock();

  // Of a fresh table.
  static void prepare(SharedTable& table);
  // The error is errno: EADDRINUSE, somebody holds it, as of a lock that is a name (unix_names.h).
  [[nodiscard]] static Result<TableLock, int> try_take(SharedTable& table);
  // Waits at most `bound`: ETIMEDOUT.
  [[nodiscard]] static Result<TableLock, int> take(SharedTable& table, Duration bound);

 private:
  explicit TableLock(SharedTable& table) : table_(&table) {}
  SharedTable* table_;
};

// What a member takes: the group's lock, so that newcomers wait, and the table's.
class MemberLock {
 public:
  // As GroupLock::try_take().
  [[nodiscard]] static Result<MemberLock, int> try_take(const GroupNames& names,
                                                        SharedTable& table);

 private:
  MemberLock(GroupLock group, TableLock table)
      : group_(std::move(group)), table_(std::move(table)) {}
  GroupLock group_;
  TableLock table_;  // given back first
};

}  // namespace verbena::link
