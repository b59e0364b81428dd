// SPDX-License-Identifier: Apache-2.0
#include "link/table_lock.h"

#include <cerrno>

#include <pthread.h>

#include "base/check.h"

namespace verbena::link {

void TableLock::prepare(SharedTable& table) {
  pthread_mutexattr_t how;
  VERBENA_CHECK(::pthread_mutexattr_init(&how) == 0);
  VERBENA_CHECK(::pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0);
  VERBENA_CHECK(::pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0);
  VERBENA_CHECK(::pthread_mutex_init(&table.lock, &how) == 0);
  (void)::pthread_mutexattr_destroy(&how);
}

Result<TableLock, int> TableLock::try_take(SharedTable& table) {
  int result = ::pthread_mutex_trylock(&table.lock);
  if (result == EOWNERDEAD) result = ::pthread_mutex_consistent(&table.lock);
  if (result == EBUSY) return fail(EADDRINUSE);
  if (result != 0) return fail(result);
  return TableLock(table);
}

Result<TableLock, int> TableLock::take(SharedTable& table, Duration bound) {
  LockPatience patience(bound);
  for (;;) {
    auto lock = try_take(table);
    if (lock || lock.error() != EADDRINUSE) return lock;
    const auto pause = patience.next_pause();
    if (!pause) return fail(ETIMEDOUT);
    sleep_for(*pause);
  }
}

TableLock::~TableLock() {
  if (table_ != nullptr) (void)::pthread_mutex_unlock(&table_->lock);
}

Result<MemberLock, int> MemberLock::try_take(const GroupNames& names, SharedTable& table) {
  auto group = GroupLock::try_take(names);
  if (!group) return fail(group.error());
  auto lock = TableLock::try_take(table);
  if (!lock) return fail(lock.error());
  return MemberLock(std::move(*group), std::move(*lock));
}

}  // namespace verbena::link
