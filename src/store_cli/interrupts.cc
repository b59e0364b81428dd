// SPDX-License-Identifier: Apache-2.0
#include "store_cli/interrupts.h"

#include <csignal>
#include <initializer_list>

namespace verbena::store_cli {
namespace {

volatile std::sig_atomic_t which = 0;
bool pipes_ignored = false;  // by who started us

void note(int signal) { which = signal; }

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // and no SA_RESTART
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    // What nohup and shells' background jobs ignore stays ignored.
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
  pipes_ignored = std::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
}

void end_by_broken_pipe() {
  if (pipes_ignored) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

int interrupted() { return which; }

}  // namespace verbena::store_cli
