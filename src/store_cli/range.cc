// SPDX-License-Identifier: Apache-2.0
// `verbena range`: a range of an object is registered with its server while a command runs, or
// until the input ends.
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "client/remote.h"
#include "store_cli/child.h"
#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/options.h"
#include "store_cli/print.h"
#include "store_cli/server_choice.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutRange =
    R"text(Ranges that clients have registered with a server are refused to others where they overlap and one
of them is for writing; with `verbena serve --enforce-ranges` so are writes of other clients. The
range ends with COMMAND, or without one at the end of standard input. COMMAND is a client of its
own: under --enforce-ranges it can read what is held here, and not write it.

  verbena range --server node1 image -- verbena get --server node1 image backup    nobody changes it
  verbena range --server node1 --write --wait 60 image -- ./rebuild                one at a time
  verbena range --server node1 --write --range 1M:64K image                        until Ctrl-D
)text";

constexpr const char* kRangeFooter =
    R"text(Exit status: that of COMMAND, 127 if it is not found and 126 if it cannot be executed; otherwise
0 success, 1 failure or another client has registered an overlapping range, 2 usage error, 3 no such
object, 10 server unreachable. See verbena-store(1).)text";

struct RangeOptions {
  ServerChoice server;
  Speech speech;
  std::string object;
  std::string range;
  bool write = false;
  double wait_seconds = 0;
  std::vector<std::string> program;
};

constexpr double kLongestWaitSeconds = 86'400;
constexpr std::chrono::milliseconds kBetweenTries{50};

// Tries until no other client is in the way, or the time is over.
[[nodiscard]] store::Result<store::RangeId> register_patiently(store::Objects& store,
                                                               store::ObjectId object,
                                                               const ByteRange& range,
                                                               const RangeOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(options.wait_seconds);
  const auto access = options.write ? store::Access::kWrite : store::Access::kRead;
  for (;;) {
    auto done = store.register_range(object, range.offset, range.length, access);
    if (done || done.error().code != store::Code::kConflict) return done;
    if (Clock::now() >= until || interrupted() != 0) return done;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

[[nodiscard]] std::string range_text(const ByteRange& range) {
  if (range.length == 0) return fmt::format("bytes from {} on", range.offset);
  return fmt::format("bytes {} to {}", range.offset, range.offset + (range.length - 1));
}

void wait_for_end_of_input() {
  char piece[4096];
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  // A signal may come between the look and the wait.
  constexpr int kLookEveryMs = 50;
  while (interrupted() == 0) {
    if (::poll(&input, 1, kLookEveryMs) <= 0) continue;
    const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
    if (got == 0 || (got < 0 && errno != EINTR)) return;
  }
}

// The command's exit status; nothing without a command, or if it could not be started.
[[nodiscard]] std::optional<int> hold(const RangeOptions& options, Report& report) {
  if (options.program.empty()) {
    wait_for_end_of_input();
    if (const int signal = interrupted(); signal != 0) report.interrupted(signal, "interrupted");
    return std::nullopt;
  }
  const auto status = run_child(options.program);
  if (status) return *status;
  report.error(kNotDone, "io", status.error().what);
  return status.error().status;
}

int range(const RangeOptions& options) {
  catch_interrupts();
  Report report("range", options.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "invalid", what);
    return report.finish();
  };
  ByteRange bytes;
  if (!options.range.empty()) {
    const auto parsed = parse_range(options.range);
    if (!parsed) return wrong("--range: " + parsed.error());
    bytes = *parsed;
  }
  if (!(options.wait_seconds >= 0 && options.wait_seconds <= kLongestWaitSeconds)) {
    return wrong(fmt::format("--wait: {} is not a time of 0 to {} seconds", options.wait_seconds,
                             kLongestWaitSeconds));
  }
  if (server_of(options.server).empty()) {
    return wrong("no server given: use --server HOST[:PORT] or set VERBENA_SERVER");
  }
  const auto remote = remote_options(options.server, report);
  if (!remote) return report.finish();
  const auto store = client::open_remote(*remote);
  if (!store) {
    report.error(store.error());
    return report.finish();
  }
  const auto object = find_object(**store, options.object, report);
  if (!object) return report.finish();
  const auto held = register_patiently(**store, object->id, bytes, options);
  if (!held) {
    report.error(held.error(), options.object);
    return report.finish();
  }
  report.fields["object"] = json_of(*object);
  report.fields["offset"] = bytes.offset;
  report.fields["length"] = bytes.length;
  report.fields["access"] = options.write ? "write" : "read";
  // Whoever started it without a command waits for this line.
  if (!report.json() && !report.speech().quiet && options.program.empty()) {
    print("registered {} of {} for {}\n", range_text(bytes), options.object,
          options.write ? "writing" : "reading");
    static_cast<void>(flush_output());
  }
  const auto status = hold(options, report);
  if (const auto ended = (*store)->unregister_range(*held); !ended) {
    store::Error error = ended.error();
    error.what = "the range was lost while it was held: " + error.what;
    report.error(error, options.object);
  }
  if (!status) return report.finish();
  report.fields["status"] = *status;
  const int own = report.finish();
  return *status != 0 ? *status : own;
}

}  // namespace

cli::Command range_command() {
  const auto options = std::make_shared<RangeOptions>();
  cli::Command command = describe("range", kAboutRange);
  command.word("OBJECT", options->object, "name or id (high:low)");
  add_server_options(command, options->server);
  command
      .refuse(
          "-d,--data", "DIR",
          "ranges are kept by servers: in a directory one process at a time can write, and those "
          "that read keep it out")
      .flag("--write", options->write,
            "for writing: nobody else may register it (default: reading)")
      .option("--range", options->range, "OFFSET:LENGTH",
              "these bytes; \"OFFSET:\" means all from there on (default: all)")
      .option("--wait", options->wait_seconds, "SECONDS",
              "time to wait for another client's range (default 0)");
  add_speech_options(command, options->speech, Shows::kNothing);
  command.program("[-- COMMAND [ARGUMENTS...]]", options->program).footer(kRangeFooter);
  return command.action([options] { return range(*options); });
}

}  // namespace verbena::store_cli
