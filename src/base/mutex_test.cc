// SPDX-License-Identifier: Apache-2.0
#include "base/mutex.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/rw_lock.h"
#include "base/short_mutex.h"

namespace verbena {
namespace {

// By another thread: a thread may not try a mutex that it has.
template <typename AnyMutex>
bool is_free(AnyMutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    free = true;
    mutex.unlock();
  }).join();
  return free;
}

template <typename AnyMutex>
void check_scopes() {
  AnyMutex mutex;
  {
    ScopedLock<AnyMutex> lock(mutex);
    EXPECT_FALSE(is_free(mutex));
    {
      const ScopedUnlock<AnyMutex> unlocked(mutex);
      EXPECT_TRUE(is_free(mutex));
    }
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
  if (mutex.try_lock()) {
    const ScopedLock<AnyMutex> lock(mutex, std::adopt_lock);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, IsHeldInItsScopeAlone) { check_scopes<Mutex>(); }
TEST(Mutex, ShortOneIsHeldInItsScopeAlone) { check_scopes<ShortMutex>(); }

struct Turn {
  Mutex mutex;
  Condition changed;
  int whose VERBENA_GUARDED_BY(mutex) = 0;

  void take(int who) {
    const MutexLock lock(mutex);
    while (whose != who) changed.wait(mutex);
    whose = 1 - who;
    changed.notify_all();
  }
};

TEST(Condition, WakesWhoWaits) {
  Turn turn;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) turn.take(1);
  });
  for (int i = 0; i < 1000; ++i) turn.take(0);
  other.join();
  const MutexLock lock(turn.mutex);
  EXPECT_EQ(turn.whose, 0);
}

TEST(Condition, TellsThatItIsLate) {
  Mutex mutex;
  Condition never;
  const MutexLock lock(mutex);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  while (never.wait_until(mutex, until)) {}
  EXPECT_GE(std::chrono::steady_clock::now(), until);
  EXPECT_FALSE(is_free(mutex));
}

TEST(RwLock, ReadersShareAndWriterDoesNot) {
  RwLock lock;
  std::atomic<bool> written = false;
  std::thread writer;
  {
    const ReadLock mine(lock);
    std::thread([&] { const ReadLock theirs(lock); }).join();
    writer = std::thread([&] {
      const WriteLock theirs(lock);
      written = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(written);
  }
  writer.join();
  EXPECT_TRUE(written);
}

}  // namespace
}  // namespace verbena
