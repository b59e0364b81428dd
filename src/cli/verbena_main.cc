// SPDX-License-Identifier: Apache-2.0
// The `verbena` command: its options, and which of them goes where.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/choices.h"
#include "cli/devices.h"
#include "cli/env.h"
#include "cli/installation.h"
#include "cli/program.h"
#include "cli/run.h"

namespace {

using namespace verbena;
using namespace verbena::cli;

constexpr int kUsage = 2;

constexpr const char* kAbout =
    R"text(RDMA on any machine: programs that use libibverbs run on a device in software, with no RDMA
hardware, no kernel module, no root and no daemon.

  verbena devices                                  what a program will see
  verbena run -- ibv_devinfo -v                    run a program on it
  verbena run -- ibv_rc_pingpong -g 0 &            two of them; -g is the number of one of the
  verbena run -- ibv_rc_pingpong -g 0 127.0.0.1    addresses that `verbena devices` lists
  eval "$(verbena env)"                            or for all that this shell starts
)text";

// The first line is what the list of commands shows.
constexpr const char* kAboutRun = R"text(Runs a program on the device.

The program takes this command's place: it has its process id, terminal, signals and exit status.
The host's own RDMA devices are hidden from it. Programs that it starts are served, too.

  verbena run -- ib_write_bw -d verbena0
  verbena run --address eth0 --mtu 1024 -- ./my-server
  verbena run --identity connectx -- ./wants-mlx5
)text";

constexpr const char* kRunFooter =
    R"text(
Exit status: the program's; 127: it was not found; 126: it cannot be executed; 125: a wrong
option, or Verbena's libraries are missing, or the view is refused here. See verbena-run(1).)text";

constexpr const char* kAboutEnv = R"text(Prints what makes a shell's programs run on the device.

  eval "$(verbena env)"                 sh, bash, zsh
  verbena env --shell fish | source     fish
  eval "`verbena env --shell csh`"      csh, tcsh
)text";

constexpr const char* kAboutDevices = R"text(Shows what a program will see.

The device is opened as a program would open it, with the same options.
)text";

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(18); }
  [[nodiscard]] std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    const std::string& name = app->get_name();
    if (name == "run") return "verbena run [OPTIONS] -- PROGRAM [ARGUMENTS...]\n";
    return name == "verbena" ? "verbena COMMAND [OPTIONS]\n" : "verbena " + name + " [OPTIONS]\n";
  }
  [[nodiscard]] std::string make_subcommand(const CLI::App* sub) const override {
    const std::string about = sub->get_description();
    return "  " + sub->get_name() + std::string(10 - sub->get_name().size(), ' ') +
           about.substr(0, about.find('\n')) + "\n";
  }
};

struct Options {
  Choices choices;
  std::string view = "preload";
  std::string shell = "sh";
  bool json = false;
};

void add_choices(CLI::App& to, Choices& choices) {
  to.add_option("--name", choices.name,
                "the device's name (verbena0; mlx5_0 with --identity connectx)")
      ->type_name("NAME");
  to.add_option("--address", choices.addresses,
                "offer only these of the host's addresses, in this order: an\n"
                "interface, an address or a network, as in eth0,10.0.0.0/8; may be\n"
                "repeated (all)")
      ->type_name("WHAT")
      ->expected(1)
      ->take_all();
  to.add_option("--identity", choices.identity,
                "who the device says it is: verbena, or connectx for programs that\n"
                "insist on one; it is able to do no more (verbena)")
      ->type_name("WHO");
  to.add_option("--mtu", choices.mtu,
                "the largest MTU to announce: 256, 512, 1024, 2048 or 4096; never\n"
                "more than the interfaces carry (4096)")
      ->type_name("BYTES");
  to.add_flag("--verbose", choices.verbose,
              "the libraries may say on the standard error what is wrong");
  to.add_option("--counters", choices.counters,
                "a file that gets a line of JSON when a process ends that used the\n"
                "device: packets, bytes, and what went wrong")
      ->type_name("FILE");
}

[[nodiscard]] int usage(const char* command, const std::string& what, int status) {
  std::fprintf(stderr, "verbena%s%s: %s\nSee verbena%s%s --help.\n", *command == 0 ? "" : " ",
               command, what.c_str(), *command == 0 ? "" : " ", command);
  return status;
}

[[nodiscard]] int do_run(const Options& options, const std::vector<std::string>& command) {
  const auto view = view_named(options.view);
  if (!view) {
    return usage("run",
                 "--view is '" + options.view + "'; there are: preload, namespace, none, auto",
                 kItselfFailed);
  }
  if (command.empty()) return usage("run", "which program?", kItselfFailed);
  Environment environment = this_environment();
  if (const auto applied = set_variables(options.choices, environment); !applied) {
    return usage("run", applied.error(), kItselfFailed);
  }
  return run(command, *view, std::move(environment));
}

// The command line in two: ours, and from "--" on the program's.
struct Line {
  std::vector<std::string> ours;
  std::vector<std::string> rest;
};
[[nodiscard]] Line split(int count, char** arguments) {
  const std::vector<std::string> all(arguments + 1, arguments + count);
  const auto mark = std::ranges::find(all, "--");
  return {{all.begin(), mark}, {mark, all.end()}};
}

// What is to be run: what follows "--", or, where that was left out, all from the first word on
// that is no option of ours (it may have a "--" of its own).
[[nodiscard]] std::vector<std::string> program_in(std::vector<std::string> words,
                                                  const std::vector<std::string>& rest) {
  const size_t skip = words.empty() && !rest.empty() ? 1 : 0;
  words.insert(words.end(), rest.begin() + static_cast<ptrdiff_t>(skip), rest.end());
  return words;
}

[[nodiscard]] int do_env(const Options& options) {
  const auto view = view_named(options.view);
  if (view != View::kPreload && view != View::kNone) {
    return usage("env", "--view is '" + options.view + "'; a shell can have: preload, none",
                 kUsage);
  }
  const auto shell = shell_named(options.shell);
  if (!shell) return usage("env", shell.error(), kUsage);
  const Environment before = this_environment();
  Environment after = before;
  if (const auto applied = set_variables(options.choices, after); !applied) {
    return usage("env", applied.error(), kUsage);
  }
  const auto libraries = library_directory();
  if (!libraries) {
    std::fprintf(stderr, "verbena env: %s\n", libraries.error().c_str());
    return 1;
  }
  use_libraries(*libraries, *view, after);
  std::fputs(assignments(before, after, *shell).c_str(), stdout);
  return 0;
}

[[nodiscard]] int do_devices(const Options& options) {
  Environment environment = this_environment();
  if (const auto applied = set_variables(options.choices, environment); !applied) {
    return usage("devices", applied.error(), kUsage);
  }
  return show_devices(environment, options.json);
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app(kAbout, "verbena");
  app.formatter(std::make_shared<Formatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.footer("\nverbena COMMAND --help tells more; so does verbena(1).");
  Options options;

  CLI::App* const run = app.add_subcommand("run", kAboutRun);
  add_choices(*run, options.choices);
  run->add_option("--view", options.view,
                  "how the program is shown the device's files in /sys and /dev:\n"
                  "preload, a library before its own; namespace, mounts of its own,\n"
                  "for programs that go round the C library; auto, namespace, or\n"
                  "preload where that is refused; none (preload)")
      ->type_name("WAY");
  run->prefix_command();
  run->footer(kRunFooter);

  CLI::App* const env = app.add_subcommand("env", kAboutEnv);
  add_choices(*env, options.choices);
  env->add_option("--view", options.view, "as for run: preload or none (preload)")
      ->type_name("WAY");
  env->add_option("--shell", options.shell, "sh, bash, zsh, fish, csh or tcsh (sh)")
      ->type_name("SHELL");

  CLI::App* const devices = app.add_subcommand("devices", kAboutDevices);
  add_choices(*devices, options.choices);
  devices->add_flag("--json", options.json, "for scripts");

  if (count == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  Line line = split(count, arguments);
  // Which command it is, for what is said before that is known.
  const std::string command = line.ours.empty() ? "" : line.ours.front();
  const bool is_run = command == "run";
  if (!is_run && !line.rest.empty()) return usage("", "only run takes a program after --", kUsage);
  if (!command.starts_with('-') && !(is_run || command == "env" || command == "devices")) {
    return usage("", "there is no command '" + command + "'; there are: run, env, devices", kUsage);
  }
  try {
    std::ranges::reverse(line.ours);  // as this parser takes them
    app.parse(line.ours);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return usage(is_run ? "run" : "", error.what(), is_run ? kItselfFailed : kUsage);
  }
  if (*run) {
    const auto words = run->remaining();
    if (!words.empty() && words.front().starts_with('-')) {
      return usage("run", "there is no option " + words.front(), kItselfFailed);
    }
    return do_run(options, program_in(words, line.rest));
  }
  return *env ? do_env(options) : do_devices(options);
}
