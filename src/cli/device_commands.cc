// SPDX-License-Identifier: Apache-2.0
#include "cli/device_commands.h"

#include <cstdio>
#include <utility>

#include "cli/devices.h"
#include "cli/env.h"
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
  verbena run --rsockets -- iperf3 -s
)text";

constexpr const char* kRunFooter =
    R"text(Exit status: the program's; 127: it was not found; 126: it cannot be executed; 125: a wrong
option, or Verbena's libraries are missing, or the view is refused here. See verbena-run(1).)text";

constexpr const char* kAboutEnv = R"text(Prints what makes a shell's programs run on the device.

  eval "$(verbena env)"                 sh, bash, zsh
  verbena env --shell fish | source     fish
  eval "`verbena env --shell csh`"      csh, tcsh
)text";

constexpr const char* kAboutDevices = R"text(Shows what a program will see.

The device is opened as a program would open it, with the same options.
)text";

void add_choices(Command& to, Choices& choices) {
  to.option("--name", choices.name, "NAME",
            "the device's name (verbena0; mlx5_0 with --identity connectx)")
      .list("--address", choices.addresses, "WHAT",
            "offer only these of the host's addresses, in this order: an\n"
            "interface, an address or a network, as in eth0,10.0.0.0/8; may be\n"
            "repeated (all)")
      .option("--identity", choices.identity, "WHO",
              "who the device says it is: verbena, or connectx for programs that\n"
              "insist on one; it is able to do no more (verbena)")
      .option("--mtu", choices.mtu, "BYTES",
              "the largest MTU to announce: 256, 512, 1024, 2048 or 4096; never\n"
              "more than the interfaces carry (4096)")
      .flag("--verbose", choices.verbose,
            "the libraries may say on the standard error what is wrong")
      .option("--counters", choices.counters, "FILE",
              "a file that gets a line of JSON when a process ends that used the\n"
              "device: packets, bytes, and what went wrong");
}

void add_rsockets(Command& to, Choices& choices) {
  to.flag("--rsockets", choices.rsockets,
          "the program's TCP sockets become rsockets, which carry their data by\n"
          "RDMA; both ends must be run so");
}

[[nodiscard]] int do_run(const DeviceOptions& options) {
  const auto view = view_named(options.view);
  if (!view) {
    return usage("run",
                 "--view is '" + options.view + "'; there are: preload, namespace, none, auto",
                 kItselfFailed);
  }
  if (options.program.empty()) return usage("run", "which program?", kItselfFailed);
  Environment environment = this_environment();
  if (const auto applied = set_variables(options.choices, environment); !applied) {
    return usage("run", applied.error(), kItselfFailed);
  }
  return run(options.program, *view, std::move(environment));
}

[[nodiscard]] int do_env(const DeviceOptions& options) {
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

[[nodiscard]] int do_devices(const DeviceOptions& options) {
  Environment environment = this_environment();
  if (const auto applied = set_variables(options.choices, environment); !applied) {
    return usage("devices", applied.error(), kUsage);
  }
  return show_devices(environment, options.json);
}

}  // namespace

std::vector<Command> device_commands(DeviceOptions& options) {
  Command run("run", kAboutRun);
  add_choices(run, options.choices);
  add_rsockets(run, options.choices);
  run.option("--view", options.view, "WAY",
             "how the program is shown the device's files in /sys and /dev:\n"
             "preload, a library before its own; namespace, mounts of its own,\n"
             "for programs that go round the C library; auto, namespace, or\n"
             "preload where that is refused; none (preload)")
      .program("-- PROGRAM [ARGUMENTS...]", options.program)
      .footer(kRunFooter)
      .usage_status(kItselfFailed)
      .action([&options] { return do_run(options); });

  Command env("env", kAboutEnv);
  add_choices(env, options.choices);
  add_rsockets(env, options.choices);
  env.option("--view", options.view, "WAY", "as for run: preload or none (preload)")
      .option("--shell", options.shell, "SHELL", "sh, bash, zsh, fish, csh or tcsh (sh)")
      .action([&options] { return do_env(options); });

  Command devices("devices", kAboutDevices);
  add_choices(devices, options.choices);
  devices.flag("--json", options.json, "for scripts").action([&options] {
    return do_devices(options);
  });
  return {std::move(run), std::move(env), std::move(devices)};
}

}  // namespace verbena::cli
