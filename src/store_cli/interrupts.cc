// SPDX-License-Identifier: Apache-2.0
#include "store_cli/interrupts.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace verbena::store_cli {
namespace {

constexpr int64_t kTogetherNs = 250'000'000;

volatile std::sig_atomic_t which = 0;
bool pipes_ignored = false;  // by who started us
void (*on_first)(int signal) = nullptr;
// When the first one came; 0: none has. Handlers run on any thread (seq_cst).
std::atomic<int64_t> first_ns{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);

void note(int signal) { which = signal; }

void handle(int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int64_t first = 0;
  if (first_ns.compare_exchange_strong(first, now_ns)) return on_first(signal);
  if (now_ns - first < kTogetherNs) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void on_interrupt(void (*handler)(int signal)) {
  on_first = handler;
  struct sigaction action{};
  action.sa_handler = handle;  // without SA_RESTART
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

void catch_interrupts() {
  on_interrupt(note);
  pipes_ignored = std::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
}

void end_by_broken_pipe() {
  if (pipes_ignored) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

int interrupted() { return which; }

}  // namespace verbena::store_cli
