// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include "cli/usage.h"

namespace verbena::cli {
namespace {

[[nodiscard]] std::string_view name_of(Completion::Kind kind) {
  switch (kind) {
    case Completion::Kind::kWords:       break;
    case Completion::Kind::kFiles:       return "files";
    case Completion::Kind::kDirectories: return "directories";
    case Completion::Kind::kObjects:     return "objects";
    case Completion::Kind::kProgram:     return "program";
  }
  return "words";
}

}  // namespace

void keep_matching(Completion& completion) {
  std::erase_if(completion.candidates, [&](const Completion::Candidate& candidate) {
    return !candidate.word.starts_with(completion.current);
  });
}

int print_completion(const Completion& completion) {
  std::string text(name_of(completion.kind));
  // How many of the words are the program's, the current one included.
  if (completion.kind == Completion::Kind::kProgram) {
    text += ' ' + std::to_string(completion.program_words);
  }
  text += '\n';
  for (const Completion::Candidate& candidate : completion.candidates) {
    text += completion.before + candidate.word;
    if (!candidate.about.empty()) text += '\t' + candidate.about;
    text += '\n';
  }
  return print_help(text);
}

}  // namespace verbena::cli
