// SPDX-License-Identifier: Apache-2.0
// Signals that a system call may raise in its own thread (SIGXFSZ beyond the limit of a file's
// size, SIGPIPE, SIGTTOU): while this is there they are kept from the program, and what came of
// them is taken back. The call fails with its errno instead.
#pragma once

#include <cerrno>
#include <csignal>
#include <initializer_list>

#include <pthread.h>
#include <time.h>

namespace verbena {

class BlockedSignals {
 public:
  BlockedSignals(std::initializer_list<int> numbers) {
    sigset_t pending;
    ::sigpending(&pending);
    sigemptyset(&ours_);
    sigset_t all;
    sigemptyset(&all);
    for (const int number : numbers) {
      sigaddset(&all, number);
      // One that was there before is the program's.
      if (sigismember(&pending, number) == 0) sigaddset(&ours_, number);
    }
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() {
    const int error = errno;
    const timespec now{};
    while (::sigtimedwait(&ours_, nullptr, &now) > 0) {}
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t ours_;
  sigset_t before_;
};

}  // namespace verbena
