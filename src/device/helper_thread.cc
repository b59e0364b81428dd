// SPDX-License-Identifier: Apache-2.0
#include "device/helper_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::device {
namespace {

// As the kernel's uapi/linux/sched/types.h has it; glibc has no wrapper.
struct SchedAttr {
  uint32_t size;
  uint32_t sched_policy;
  uint64_t sched_flags;
  int32_t sched_nice;
  uint32_t sched_priority;
  uint64_t sched_runtime;  // for SCHED_OTHER: the slice asked for
  uint64_t sched_deadline;
  uint64_t sched_period;
};

// A short slice means to be scheduled sooner after waking, beside programs that spin. Refusal is
// fine.
void ask_for_short_slice() {
  SchedAttr attr{};
  attr.size = sizeof attr;
  attr.sched_policy = SCHED_OTHER;
  attr.sched_runtime = 100'000;
  (void)::syscall(SYS_sched_setattr, 0, &attr, 0);
}

void become_helper() {
  // Signals of the program are not ours.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "verbena");
  ask_for_short_slice();
}

}  // namespace

int HelperThread::start(std::function<void()> body) {
  try {
    thread_ = std::thread([body = std::move(body)] {
      become_helper();
      body();
    });
  } catch (const std::system_error& refused) {
    return refused.code().value();
  }
  return 0;
}

}  // namespace verbena::device
