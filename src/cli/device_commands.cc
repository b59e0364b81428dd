// SPDX-License-Identifier: Apache-2.0
// The options of `verbena run`, `devices` and `env`.
#include <cstdio>
#include <memory>
#include <utility>

#include "cli/choices.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/env.h"
#include "cli/exit_status.h"
#include "cli/installation.h"
#include "cli/program.h"
#include "cli/run.h"
#include "cli/usage.h"

namespace verbena::cli {
namespace {

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

void add_device_commands(CLI::App& to, std::vector<Command>& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App* const run = to.add_subcommand("run", kAboutRun);
  add_choices(*run, options->choices);
  run->add_option("--view", options->view,
                  "how the program is shown the device's files in /sys and /dev:\n"
                  "preload, a library before its own; namespace, mounts of its own,\n"
                  "for programs that go round the C library; auto, namespace, or\n"
                  "preload where that is refused; none (preload)")
      ->type_name("WAY");
  run->prefix_command();
  run->footer(kRunFooter);
  commands.push_back({run,
                      [options, run](const std::vector<std::string>& rest) {
                        const auto words = run->remaining();
                        if (!words.empty() && words.front().starts_with('-')) {
                          return usage("run", "there is no option " + words.front(), kItselfFailed);
                        }
                        return do_run(*options, program_in(words, rest));
                      },
                      true, kItselfFailed});

  CLI::App* const env = to.add_subcommand("env", kAboutEnv);
  add_choices(*env, options->choices);
  env->add_option("--view", options->view, "as for run: preload or none (preload)")
      ->type_name("WAY");
  env->add_option("--shell", options->shell, "sh, bash, zsh, fish, csh or tcsh (sh)")
      ->type_name("SHELL");
  commands.push_back({env, [options](const auto&) { return do_env(*options); }});

  CLI::App* const devices = to.add_subcommand("devices", kAboutDevices);
  add_choices(*devices, options->choices);
  devices->add_flag("--json", options->json, "for scripts");
  commands.push_back({devices, [options](const auto&) { return do_devices(*options); }});

  for (CLI::App* const app : {run, env, devices}) app->group("The device");
}

}  // namespace verbena::cli
