// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/literal_words.h"
#include "cli/usage.h"

namespace verbena::cli {
namespace {

constexpr const char* kAbout =
    R"text(RDMA on any machine: programs that use libibverbs run on a device in software, with no RDMA
hardware, no kernel module, no root and no daemon. And a store that proves its data right.

  verbena devices                                  what a program will see
  verbena run -- ibv_devinfo -v                    run a program on it
  verbena run -- ibv_rc_pingpong -g 0 &            two of them; -g is the number of one of the
  verbena run -- ibv_rc_pingpong -g 0 127.0.0.1    addresses that `verbena devices` lists
  eval "$(verbena env)"                            or for all that this shell starts

  verbena put --data DIR photo.jpg photos/1        keep a file as an object of a store in a folder
  verbena get --data DIR photos/1 photo.jpg        and have it back, verified
)text";

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(18); }
  [[nodiscard]] std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    const std::string& name = app->get_name();
    if (name == "verbena") return "verbena COMMAND [OPTIONS]\n";
    if (name == "run") return "verbena run [OPTIONS] -- PROGRAM [ARGUMENTS...]\n";
    std::string line = "verbena " + name + " [OPTIONS]";
    for (const CLI::Option* const option : app->get_options()) {
      if (!option->get_positional()) continue;
      std::string word = option->get_name(true);
      if (option->get_expected_max() > 1) word += "...";
      line += option->get_required() ? " " + word : " [" + word + "]";
    }
    // One vector holds what are two things to the user.
    return line + (name == "salvage" ? " NEW\n" : "\n");
  }
  // What it takes alone: that it must be there is in the line above, what it excludes in the text.
  [[nodiscard]] std::string make_option_opts(const CLI::Option* option) const override {
    const bool takes = !option->get_positional() && option->get_type_size() != 0;
    return takes ? " " + option->get_type_name() : "";
  }
  [[nodiscard]] std::string make_subcommand(const CLI::App* sub) const override {
    const std::string about = sub->get_description();
    return "  " + sub->get_name() + std::string(10 - sub->get_name().size(), ' ') +
           about.substr(0, about.find('\n')) + "\n";
  }
};

// The command line in two: ours, and from "--" on a program's.
struct Line {
  std::vector<std::string> ours;
  std::vector<std::string> rest;
};
[[nodiscard]] Line split(const std::vector<std::string>& all) {
  const auto mark = std::ranges::find(all, "--");
  return {{all.begin(), mark}, {mark, all.end()}};
}

[[nodiscard]] std::string names_of(const std::vector<Command>& commands) {
  std::string names;
  for (const Command& command : commands) {
    names += (names.empty() ? "" : ", ") + command.app->get_name();
  }
  return names;
}

}  // namespace

int run_command_line(int count, char** arguments) {
  CLI::App app(kAbout, "verbena");
  app.formatter(std::make_shared<Formatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.footer("\nverbena COMMAND --help tells more; so do verbena(1) and verbena-store(1).");
  std::vector<Command> commands;
  add_device_commands(app, commands);
  add_store_commands(app, commands);

  if (count == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const auto command = std::ranges::find(commands, words.front(),
                                         [](const Command& c) { return c.app->get_name(); });
  const bool known = command != commands.end();
  if (!known && !words.front().starts_with('-')) {
    return usage("",
                 "there is no command '" + words.front() + "'; there are: " + names_of(commands),
                 kUsage);
  }
  Line line = known && command->program ? split(words) : Line{words, {}};
  unshield_words(app);
  if (!known || !command->program) std::ranges::transform(line.ours, line.ours.begin(), shielded);
  try {
    std::ranges::reverse(line.ours);  // as this parser takes them
    app.parse(line.ours);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return usage(known ? command->app->get_name() : "", error.what(),
                 known ? command->usage_status : kUsage);
  }
  return command->run(line.rest);
}

}  // namespace verbena::cli
