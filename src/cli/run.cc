// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "cli/counter_keeper.h"
#include "cli/installation.h"
#include "cli/namespace_view.h"
#include "cli/program.h"
#include "identity/tree.h"

namespace verbena::cli {
namespace {

int say(int status, const std::string& what) {
  std::fprintf(stderr, "verbena run: %s\n", what.c_str());
  return status;
}

[[nodiscard]] std::string value_of(const Environment& in, const char* name, const char* otherwise) {
  const auto found = in.find(name);
  return found == in.end() ? otherwise : found->second;
}

[[nodiscard]] identity::Tree tree_for(const Environment& environment) {
  const auto reading = identity::read_settings([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
  device::GidTable gids(reading.settings.gids);
  gids.refresh();
  return make_tree(reading.settings, gids);
}

// What execve takes, of strings that live as long as the list.
class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  [[nodiscard]] char** get() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

[[nodiscard]] int become(const std::string& program, const std::vector<std::string>& command,
                         const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) {
    variables.emplace_back(name).append(1, '=').append(value);
  }
  Words with(std::move(variables));
  Words arguments(command);
  ::execve(program.c_str(), arguments.get(), with.get());
  const int error = errno;
  if (error == ENOEXEC) {
    // As execvp and shells do: a script without a first line that says so.
    std::vector<std::string> script{"sh", program};
    script.insert(script.end(), command.begin() + 1, command.end());
    Words shell(std::move(script));
    ::execve("/bin/sh", shell.get(), with.get());
  }
  if (error == ENOENT) {
    return say(kNotExecutable, program +
                                   ": its interpreter (the dynamic loader, or that after #! in a "
                                   "script) does not exist");
  }
  return say(kNotExecutable, program + ": " + std::strerror(error));
}

}  // namespace

int run(const std::vector<std::string>& command, View view, Environment environment) {
  const auto libraries = library_directory();
  if (!libraries) return say(kItselfFailed, libraries.error());
  const auto program =
      find_program(command.front(), value_of(environment, "PATH", "/usr/local/bin:/usr/bin:/bin"));
  if (!program) return say(program.error().status, program.error().what);
  for (const std::string& obstacle : obstacles(*program)) {
    say(0, obstacle + ". It cannot use Verbena; its child processes may.");
  }

  if (view == View::kAuto) {
    view = can_enter_namespace_view(tree_for(environment)) ? View::kNamespace : View::kPreload;
  }
  if (view == View::kNamespace) {
    const identity::Tree tree = tree_for(environment);
    const auto entered = enter_namespace_view(tree, [&] { start_counter_keeper(tree); });
    if (!entered) {
      return say(kItselfFailed, "this system does not allow --view namespace (" + entered.error() +
                                    "); --view preload needs no permission");
    }
  }
  use_libraries(*libraries, view, environment);
  return become(*program, command, environment);
}

}  // namespace verbena::cli
