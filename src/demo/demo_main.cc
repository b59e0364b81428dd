// SPDX-License-Identifier: Apache-2.0
// verbena-demo: tells one simulated run with faults, packet by packet, and leaves a capture of it.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <unistd.h>

#include "demo/story.h"

namespace {

constexpr const char* kHelp = R"(verbena-demo [--seed N] [--pcap FILE]

Two simulated hosts exchange RDMA operations over a network that loses, doubles, corrupts and swaps some
packets. Every packet is told as it is sent, with what becomes of it, and every completion. The packets
are written to a capture that Wireshark and tshark open (filter: infiniband).

  --seed N      another run: other keys, numbers and data (1)
  --pcap FILE   where the capture goes (verbena-demo.pcap)
  --help        this
)";

int complain(const std::string& what) {
  std::fprintf(stderr, "verbena-demo: %s\nSee verbena-demo --help.\n", what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  verbena::demo::StoryOptions options;
  std::string path = "verbena-demo.pcap";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (argument != "--seed" && argument != "--pcap") {
      return complain("unknown option '" + std::string(argument) + "'");
    }
    if (++i == argc) return complain(std::string(argument) + " wants a value");
    if (argument == "--pcap") {
      path = argv[i];
      continue;
    }
    char* end = nullptr;
    errno = 0;
    options.seed = std::strtoull(argv[i], &end, 10);
    if (errno != 0 || end == argv[i] || *end != '\0' || *argv[i] == '-') {
      return complain(std::string("--seed wants a whole number, not '") + argv[i] + "'");
    }
  }
  options.colors = ::isatty(STDOUT_FILENO) == 1;
  const verbena::demo::StoryResult story = verbena::demo::tell_story(options);
  std::fputs(story.text.c_str(), stdout);

  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  const bool written = file != nullptr && std::fwrite(story.capture.data(), 1, story.capture.size(),
                                                      file) == story.capture.size();
  if ((file != nullptr && std::fclose(file) != 0) || !written) {
    std::fprintf(stderr, "verbena-demo: cannot write the capture %s: %s\n", path.c_str(),
                 std::strerror(errno));
    return 1;
  }
  std::printf("\nThe packets are in %s; open it with Wireshark, or: tshark -r %s\n", path.c_str(),
              path.c_str());
  return story.good ? 0 : 1;
}
