// SPDX-License-Identifier: Apache-2.0
// verbena_golden DIR: every check over every capture in a directory. The last line counts.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "golden/checks.h"
#include "golden/responder_check.h"

namespace verbena::golden {

void Report::fail(const std::string& capture, size_t frame, const std::string& what) {
  ++failures;
  std::printf("FAIL %s", capture.c_str());
  if (frame != 0) std::printf(" frame %zu", frame);
  std::printf(": %s\n", what.c_str());
}

namespace {

namespace fs = std::filesystem;

constexpr Check kChecks[] = {check_decode, check_responder, check_cm};

constexpr const char* kHelp =
    "verbena_golden [--packets] DIR\n"
    "\n"
    "Checks every .pcap in DIR (classic pcap, Ethernet): each RoCEv2 frame decodes, encodes again "
    "to\n"
    "the same bytes, and has the right ICRC; our responder, given a conversation's requests, "
    "answers\n"
    "as the capture's did; each message of connection management encodes to the same bytes. The "
    "last line counts captures, frames and conversations.\n"
    "\n"
    "  --packets   describe every packet on the way\n"
    "\n"
    "Exit status: 0 all is well, 1 a check failed, 2 there was nothing to check.\n";

// The .pcap files of a directory by name, or nothing after saying why.
std::vector<fs::path> find_captures(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  if (error) {
    std::fprintf(stderr, "verbena_golden: %s: %s\n", directory.c_str(), error.message().c_str());
    return paths;
  }
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".pcap") paths.push_back(entry.path());
  }
  if (paths.empty()) {
    std::fprintf(stderr, "verbena_golden: no captures (*.pcap) in %s\n", directory.c_str());
  }
  std::ranges::sort(paths);
  return paths;
}

int run(const fs::path& directory, bool show_packets) {
  const std::vector<fs::path> paths = find_captures(directory);
  if (paths.empty()) return 2;

  Report report;
  report.show_packets = show_packets;
  for (const fs::path& path : paths) {
    ++report.captures;
    const auto capture = load_capture(path);
    if (!capture) {
      report.fail(path.filename().string(), 0, capture.error());
      continue;
    }
    for (const Check check : kChecks) check(*capture, report);
  }
  std::printf(
      "%zu captures, %zu frames, %zu of other protocols, %zu deliberately corrupt; %zu "
      "conversations "
      "with our responder, %zu answers compared; %zu messages of connection management; %zu "
      "failures\n",
      report.captures, report.frames, report.other_frames, report.corrupt, report.conversations,
      report.answers, report.mads, report.failures);
  return report.failures == 0 ? 0 : 1;
}

int main_with_arguments(const std::vector<std::string>& arguments) {
  const char* directory = nullptr;
  bool show_packets = false;
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (argument == "--packets") {
      show_packets = true;
    } else if (argument.starts_with('-') || directory != nullptr) {
      std::fprintf(stderr, "verbena_golden: what is '%s'?\n%s", argument.c_str(), kHelp);
      return 2;
    } else {
      directory = argument.c_str();
    }
  }
  if (directory == nullptr) {
    std::fprintf(stderr, "verbena_golden: which directory?\n%s", kHelp);
    return 2;
  }
  return run(directory, show_packets);
}

}  // namespace
}  // namespace verbena::golden

int main(int argc, char** argv) {
  try {
    return verbena::golden::main_with_arguments({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbena_golden: %s\n", error.what());
    return 2;
  }
}
