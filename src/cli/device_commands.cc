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

The program replaces this command: process id, terminal, signals and exit status are its own.
RDMA devices of the host are hidden from it. Its child processes also use the device.

  verbena run -- ib_write_bw -d verbena0
  verbena run --address eth0 --mtu 1024 -- ./my-server
  verbena run --identity connectx -- ./wants-mlx5
  verbena run --rsockets -- iperf3 -s
)text";

constexpr const char* kRunFooter =
    R"text(Exit status: that of the program; 127: program not found; 126: program cannot be executed; 125:
invalid option, missing libraries, or view not allowed by the system. See verbena-run(1).)text";

constexpr const char* kAboutEnv =
    R"text(Prints shell commands that make all programs of the shell run on the device.

  eval "$(verbena env)"                 sh, bash, zsh
  verbena env --shell fish | source     fish
  eval "`verbena env --shell csh`"      csh, tcsh
)text";

constexpr const char* kAboutDevices = R"text(Shows the device as programs see it.

Opens the device as a program would, with the same options.
)text";

void add_choices(Command& to, Choices& choices) {
  to.option("--name", choices.name, "NAME",
            "name of the device (default verbena0; mlx5_0 with --identity connectx)")
      .list("--address", choices.addresses, "WHAT",
            "offer only these addresses of the host, in this order: interfaces,\n"
            "addresses or networks, as in eth0,10.0.0.0/8; may be repeated\n"
            "(default: all)")
      .option("--identity", choices.identity, "WHO",
              "identity of the device: verbena, or connectx for programs that\n"
              "require a ConnectX (default verbena)")
      .option("--mtu", choices.mtu, "BYTES",
              "maximum active MTU: 256, 512, 1024, 2048 or 4096; also limited by\n"
              "the interfaces (default 4096)")
      .option("--link", choices.link, "WAY",
              "to processes of this host: auto, through shared memory where both\n"
              "ends can; udp, through sockets as to other hosts; shared, through\n"
              "shared memory or not at all (default auto)")
      .option("--receive-buffer", choices.receive_buffer, "BYTES",
              "room for packets that were not read yet, as in 2M; the system may\n"
              "give less: net.core.rmem_max (default 8M)")
      .option("--secret", choices.secret, "FILE",
              "packets to and from other hosts carry a tag made with the content of\n"
              "FILE, which both ends have; others are dropped (default: no tags)")
      .flag("--verbose", choices.verbose, "let the libraries print warnings on standard error")
      .flag("--quiet", choices.quiet,
            "do not print warnings about lost completions, unnoticed errors of\n"
            "queue pairs and dropped packets")
      .option("--counters", choices.counters, "FILE",
              "append a line of JSON to FILE when a process that used the device\n"
              "exits: packets, bytes and error counters")
      .choices("--identity", {"verbena", "connectx"})
      .choices("--mtu", {"256", "512", "1024", "2048", "4096"})
      .choices("--link", {"auto", "udp", "shared"});
}

void add_rsockets(Command& to, Choices& choices) {
  to.flag("--rsockets", choices.rsockets,
          "replace the program's TCP sockets by rsockets, which transfer data by\n"
          "RDMA; needed at both ends");
}

[[nodiscard]] int do_run(const DeviceOptions& options) {
  const auto view = view_named(options.view);
  if (!view) {
    return usage("run",
                 "--view is '" + options.view + "'; valid values: preload, namespace, none, auto",
                 kItselfFailed);
  }
  if (options.program.empty()) return usage("run", "no program given", kItselfFailed);
  Environment environment = this_environment();
  if (const auto applied = set_variables(options.choices, environment); !applied) {
    return usage("run", applied.error(), kItselfFailed);
  }
  if (const std::string warning = warning_about(environment); !warning.empty()) {
    std::fprintf(stderr, "verbena run: warning: %s\n", warning.c_str());
  }
  return run(options.program, *view, std::move(environment));
}

[[nodiscard]] int do_env(const DeviceOptions& options) {
  const auto view = view_named(options.view);
  if (view != View::kPreload && view != View::kNone) {
    return usage("env", "--view is '" + options.view + "'; valid values for a shell: preload, none",
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
             "how /sys and /dev show the device: preload, by a preloaded library;\n"
             "namespace, by a mount namespace, for programs that do not use the\n"
             "C library; auto, namespace, or preload if not allowed; none\n"
             "(default preload)")
      .choices("--view", {"preload", "namespace", "auto", "none"})
      .program("-- PROGRAM [ARGUMENTS...]", options.program)
      .footer(kRunFooter)
      .usage_status(kItselfFailed)
      .action([&options] { return do_run(options); });

  Command env("env", kAboutEnv);
  add_choices(env, options.choices);
  add_rsockets(env, options.choices);
  env.option("--view", options.view, "WAY", "as for run: preload or none (default preload)")
      .option("--shell", options.shell, "SHELL", "sh, bash, zsh, fish, csh or tcsh (default sh)")
      .choices("--view", {"preload", "none"})
      .choices("--shell", {"sh", "bash", "zsh", "fish", "csh", "tcsh"})
      .action([&options] { return do_env(options); });

  Command devices("devices", kAboutDevices);
  add_choices(devices, options.choices);
  devices.flag("--json", options.json, "print JSON").action([&options] {
    return do_devices(options);
  });
  return {std::move(run), std::move(env), std::move(devices)};
}

}  // namespace verbena::cli
