// SPDX-License-Identifier: Apache-2.0
#include "device/event_count.h"

#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutex.h"
#include "device/completion_channel.h"
#include "device/event_queue.h"
#include "support/forbid.h"

namespace verbena::device {
namespace {

// The number of the step that went wrong, or 0.
[[nodiscard]] int counts_and_waits() {
  EventCount count;
  Mutex mutex;
  if (!count.valid() || !count.blocking()) return 1;
  if (count.try_take()) return 2;  // and does not wait
  count.add(2);
  if (!count.try_take() || !count.try_take() || count.try_take()) return 3;
  std::atomic<int> taken = -1;
  std::thread waiter([&] { taken = count.take(mutex); });
  ::usleep(2000);
  if (taken != -1) return 4;
  {
    const MutexLock lock(mutex);
    count.add(1);
  }
  waiter.join();
  if (taken != 0) return 5;
  (void)::fcntl(count.fd(), F_SETFL, O_NONBLOCK);
  if (count.take(mutex) != EAGAIN) return 6;
  count.add(1);
  if (count.take(mutex) != 0 || count.take(mutex) != EAGAIN) return 7;
  // Its users: events that are dropped are not counted, and one that is there is found.
  EventQueue events;
  int object = 0;
  events.raise({EventType::kQpFatal, &object});
  (void)events.forget(&object);
  events.raise({EventType::kGidChange, nullptr});
  AsyncEvent event;
  if (events.wait(event) != 0 || event.type != EventType::kGidChange) return 8;
  (void)::fcntl(events.fd(), F_SETFL, O_NONBLOCK);
  if (events.wait(event) != EAGAIN) return 9;
  return 0;
}

TEST(EventCount, CountsAndWaits) { EXPECT_EQ(counts_and_waits(), 0); }

// A kernel before 5.7, and a sandbox.
TEST(EventCount, DoesSoWhereReadingWithoutWaitingIsRefused) {
  for (const int error : {EOPNOTSUPP, ENOSYS, EPERM}) {
    SCOPED_TRACE(error);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(20);
      ::_exit(testing::forbid(SYS_preadv2, error) ? counts_and_waits() : testing::kCannotForbid);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == testing::kCannotForbid) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

}  // namespace
}  // namespace verbena::device
