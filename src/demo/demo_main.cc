// SPDX-License-Identifier: Apache-2.0
// verbena-demo: shows the device at work between two processes, or tells a simulated run, and
// leaves a capture of it; or prints the device's limits.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "demo/options.h"
#include "demo/report.h"
#include "demo/show_limits.h"
#include "demo/story.h"

namespace verbena::demo {
namespace {

int tell(const Options& options) {
  const StoryResult story =
      tell_story({.seed = options.seed, .colors = ::isatty(STDOUT_FILENO) == 1});
  std::fputs(story.text.c_str(), stdout);

  const char* const path = options.pcap.c_str();
  std::FILE* const file = std::fopen(path, "wbe");
  const bool written = file != nullptr && std::fwrite(story.capture.data(), 1, story.capture.size(),
                                                      file) == story.capture.size();
  if ((file != nullptr && std::fclose(file) != 0) || !written) {
    std::fprintf(stderr, "verbena-demo: cannot write the capture %s: %s\n", path,
                 std::strerror(errno));
    return 1;
  }
  std::printf("\nThe packets are in %s; open it with Wireshark, or: tshark -r %s\n", path, path);
  return story.good ? 0 : 1;
}

int show(const Options& options) {
  LiveOptions live;
  live.seed = options.seed;
  live.pcap = options.pcap;
  live.burst = options.burst;
  live.end.ipv6 = options.ipv6;
  if (!options.json) {
    std::printf("Two processes, an initiator and a target, over UDP on %s, path MTU %u.\n\n",
                options.ipv6 ? "::1" : "127.0.0.1", kMtuBytes);
  }
  const LiveResult result = run_live(live);
  if (options.json) {
    std::fputs(json_of(live, result).c_str(), stdout);
  } else if (result.problem.empty()) {
    std::fputs(table_of(live, result, ::isatty(STDOUT_FILENO) == 1).c_str(), stdout);
  }
  if (!result.problem.empty()) {
    std::fprintf(stderr, "verbena-demo: %s\n", result.problem.c_str());
  }
  return result.good() ? 0 : 1;
}

int run(std::span<const char* const> arguments) {
  const auto options = parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "verbena-demo: %s\nSee verbena-demo --help.\n", options.error().c_str());
    return 2;
  }
  if (options->help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (options->limits) {
    const device::DeviceLimits limits;
    std::fputs((options->json ? json_of(limits) : table_of(limits)).c_str(), stdout);
    return 0;
  }
  return options->simulated ? tell(*options) : show(*options);
}

}  // namespace
}  // namespace verbena::demo

int main(int argc, char** argv) {
  return verbena::demo::run(
      std::span<const char* const>(argv, static_cast<size_t>(argc)).subspan(1));
}
