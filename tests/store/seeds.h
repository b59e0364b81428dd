// SPDX-License-Identifier: Apache-2.0
// The options that all the seeded programs here have, and what to say of a seed that failed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace verbena::store::trial {

// --NAME NUMBER for each of `numbers`, --NAME for each of `flags`, --NAME WORD for each of `words`.
struct Arguments {
  std::map<std::string, uint64_t> numbers;
  std::map<std::string, bool> flags;
  std::map<std::string, std::string> words;
};
// Into what is there already. Says what is wrong, or gives help, and answers false.
[[nodiscard]] bool parse(int argc, char** argv, const char* help, Arguments& arguments);

// A seed that ends the process (a broken invariant, a sanitizer's finding) is named, too.
void announce_seed(uint64_t seed, const std::string& command);

// What was violated, the last steps, and how to repeat it.
void print_failure(uint64_t seed, const std::string& violation,
                   const std::vector<std::string>& trace, const std::string& command);

}  // namespace verbena::store::trial
