// SPDX-License-Identifier: Apache-2.0
// verbena_emulated_link: two hosts on one machine, joined by a link with a rate, a delay, a queue
// and faults. For where the kernel has no netem. See --help.
#include <cstdio>
#include <cstdlib>

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "emulated_link/host_end.h"
#include "emulated_link/options.h"
#include "emulated_link/relay.h"

namespace verbena::emulated {
namespace {

constexpr int kSkipped = 77;
constexpr int kWrongUse = 2;

// Wakes when it is time, even while the programs at the ends keep all cores busy. Without the right
// to, it is an ordinary process, and says how late it was.
void be_punctual() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  const sched_param lowest{.sched_priority = 1};
  (void)::sched_setscheduler(0, SCHED_FIFO, &lowest);
}

void print_line(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

[[nodiscard]] std::string names_of(const std::array<HostEnd, 2>& ends) {
  const auto path = [](const HostEnd& end) {
    return "\"/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(end.space.get()) + '"';
  };
  return R"({"namespaces": [)" + path(ends[0]) + ", " + path(ends[1]) + "]}";
}

int run(const Options& options) {
  std::array<HostEnd, 2> ends;
  for (uint32_t i = 0; i < ends.size(); ++i) {
    std::string why;
    if (!make_host_end(i, options.mtu_bytes, ends[i], why)) {
      std::fprintf(stderr, "verbena_emulated_link: not possible here: %s\n", why.c_str());
      return kSkipped;
    }
  }
  const std::string names = names_of(ends);
  Relay relay(std::move(ends), {options.impairments, options.impairments}, options.mtu_bytes,
              options.seed);
  be_punctual();
  print_line(names);
  const Time until = Relay::now() + options.run_time;
  while (Relay::now() < until) {
    relay.run(STDIN_FILENO, until);
    char line[256];
    const bool more = Relay::now() < until && ::read(STDIN_FILENO, line, sizeof line) > 0;
    print_line(relay.report());
    if (!more) break;
  }
  return 0;
}

}  // namespace
}  // namespace verbena::emulated

int main(int argc, char** argv) {
  using namespace verbena::emulated;
  // A parent that dies closes standard input as well, unless another process has it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Options options;
  std::string problem;
  if (!parse(argc, argv, options, problem)) {
    std::fprintf(stderr, "verbena_emulated_link: %s; see --help\n", problem.c_str());
    return kWrongUse;
  }
  if (options.help) {
    std::printf("%s", usage());
    return 0;
  }
  return run(options);
}
