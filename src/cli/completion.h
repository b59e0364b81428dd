// SPDX-License-Identifier: Apache-2.0
// What a shell offers where the user has typed a part of a command line. The shells' own parts
// (completions/) ask `verbena __complete` for it, so that it is always what the commands take.
//
//   verbena __complete WORD... CURRENT     the words behind "verbena"; the last one is not finished
//
// The answer is a line with the kind, and a line for each candidate: the word, and behind a tab
// what there is to say about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::cli {

inline constexpr std::string_view kCompleteCommand = "__complete";

struct Completion {
  enum class Kind : uint8_t {
    kWords,        // the candidates
    kFiles,        // and names of files
    kDirectories,  // and names of directories
    kObjects,      // and names of objects of the store that `values` choose
    kProgram,      // nothing of ours: the last `program_words` are another program and its words
  };
  struct Candidate {
    std::string word{};
    std::string about{};
  };
  Kind kind = Kind::kWords;
  std::vector<Candidate> candidates{};
  std::vector<std::pair<std::string, std::string>> values{};  // of the options that were given
  std::string current{};  // what the candidates begin with, without "--option="
  std::string before{};   // "--option=", if that is a part of the current word
  size_t program_words = 0;
};

// Those that begin with what was typed.
void keep_matching(Completion& completion);
// Prints the answer; the exit status.
[[nodiscard]] int print_completion(const Completion& completion);

}  // namespace verbena::cli
