// SPDX-License-Identifier: Apache-2.0
// Whether a wait that a signal has interrupted goes on.
#pragma once

#include <csignal>

namespace verbena {

// A read() would go on after handlers installed with SA_RESTART, where poll() never does. Which
// handler ran is not known: if one of those installed is without, that one. Those for faults of the
// program (which sanitizers install, and run-time systems) interrupt no wait.
[[nodiscard]] inline bool signals_restart() {
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
        number == SIGTRAP || number == SIGSYS) {
      continue;
    }
    struct sigaction action{};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    const bool handled = (action.sa_flags & SA_SIGINFO) != 0 ||
                         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
    if (handled && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

}  // namespace verbena
