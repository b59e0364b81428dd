// SPDX-License-Identifier: Apache-2.0
#include "seeds.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

// There in builds with AddressSanitizer alone.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace verbena::store::trial {
namespace {

constexpr size_t kLastSteps = 40;
std::array<char, 256> last_words{};

void say_last_words() {
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
  static_cast<void>(written);
}

void on_abort(int number) {
  std::signal(number, SIG_DFL);
  say_last_words();
  std::raise(number);
}

}  // namespace

bool parse(int argc, char** argv, const char* help, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string name = argument.starts_with("--") ? argument.substr(2) : "";
    const bool has_value = i + 1 < argc;
    if (argument == "--help" || argument == "-h") {
      std::fputs(help, stdout);
      std::exit(0);
    }
    if (arguments.flags.contains(name)) {
      arguments.flags[name] = true;
      continue;
    }
    if (arguments.words.contains(name) && has_value) {
      arguments.words[name] = argv[++i];
      continue;
    }
    if (arguments.numbers.contains(name) && has_value) {
      char* end = nullptr;
      arguments.numbers[name] = std::strtoull(argv[++i], &end, 0);
      if (end != argv[i] && *end == 0) continue;
    }
    std::fprintf(stderr, "'%s' is not understood, or lacks a value. See --help.\n",
                 argument.c_str());
    return false;
  }
  return true;
}

void announce_seed(uint64_t seed, const std::string& command) {
  static const bool listening = [] {
    std::signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback != nullptr) {
      __sanitizer_set_death_callback(say_last_words);
    } else {
      for (const int number : {SIGSEGV, SIGBUS}) std::signal(number, on_abort);
    }
    return true;
  }();
  static_cast<void>(listening);
  std::snprintf(last_words.data(), last_words.size(),
                "Seed %llu ended the process. Repeat it with\n  %s\n",
                static_cast<unsigned long long>(seed), command.c_str());
}

void print_failure(uint64_t seed, const std::string& violation,
                   const std::vector<std::string>& trace, const std::string& command) {
  const size_t first = trace.size() > kLastSteps ? trace.size() - kLastSteps : 0;
  for (size_t i = first; i < trace.size(); ++i) std::printf("  %s\n", trace[i].c_str());
  std::printf("FAIL seed %llu: %s\nRepeat it with\n  %s\n", static_cast<unsigned long long>(seed),
              violation.c_str(), command.c_str());
  std::fflush(stdout);
}

}  // namespace verbena::store::trial
