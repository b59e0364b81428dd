// SPDX-License-Identifier: Apache-2.0
// `verbena receive`: takes files that `verbena send`, or a program with the plain protocol, sends.
#include <csignal>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/options.h"
#include "store_cli/print.h"
#include "store_cli/progress.h"
#include "store_cli/server_address.h"
#include "store_cli/sizes.h"
#include "store_cli/transfer_ends.h"
#include "transfer/path.h"
#include "transfer/receiver.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutReceive =
    R"text(Waits for files that `verbena send` sends over RDMA, and stores them in a folder. A file has its own
name only when it is complete and its CRC32 is right; what was broken off stays beside it as
.verbena-*.part, to be resumed. Files that are there already are kept. Nothing that a sender says
leads out of the folder. Prints "ready" when senders can come, and a line for each file.

  verbena receive /srv/incoming
  verbena receive --once --listen 127.0.0.1:0 .
  verbena receive --listen '*' --secret-file ~/.verbena-secret --max-size 10G /srv/incoming
)text";

struct ReceiveChoice {
  TransferChoice ends;
  Speech speech;
  std::string folder;
  std::string listen = "*";
  std::string max_size;
  double keep_days = 30;
  bool once = false;
  bool overwrite = false;
  bool sync = false;
};

transfer::Receiver* receiving = nullptr;
void on_receive_signal(int /*signal*/) {
  if (receiving != nullptr) receiving->stop();
}

// While a file is under way; a receiver may wait for days.
class ReceiveBar {
 public:
  explicit ReceiveBar(bool wanted) : wanted_(wanted) {}
  void show(const transfer::Progress& progress) {
    if (progress.file.path.empty()) return bar_.reset();
    if (!bar_) {
      bar_.emplace(wanted_, "receiving", 0);
      before_bytes_ = progress.done_bytes;
    }
    show_progress({progress.done_bytes - before_bytes_, progress.file}, *bar_);
  }
  void clear() {
    if (bar_) bar_->clear();
  }

 private:
  const bool wanted_;
  uint64_t before_bytes_ = 0;
  std::optional<ProgressBar> bar_;
};

void show_line(const Report& report, const nlohmann::ordered_json& line, const std::string& text) {
  if (report.json()) {
    print("{}\n", dump(line, -1));
  } else if (!report.speech().quiet) {
    print("{}\n", text);
  }
  static_cast<void>(flush_output());  // finish_service() tells
}

int receive(const ReceiveChoice& choice) {
  Report report("receive", choice.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "invalid", what);
    return report.finish();
  };
  auto address = parse_listen(choice.listen, transfer::kPlainPort);
  if (!address) return wrong("--listen: " + address.error());
  transfer::ReceiverOptions options;
  options.listen = {address->host, address->port};
  options.once = choice.once;
  if (!choice.max_size.empty()) {
    const auto size = parse_size(choice.max_size);
    if (!size) return wrong("--max-size: " + size.error());
    options.limits.max_file_bytes = *size;
  }
  auto secret = transfer_secret(choice.ends, report);
  if (!secret) return report.finish();
  options.secret = std::move(*secret);
  const auto liveness = transfer_liveness(choice.ends, report);
  if (!liveness) return report.finish();
  options.liveness = *liveness;
  if (options.secret.empty() && !is_loopback(address->host)) {
    report.note(
        "warning: whoever reaches this address can store files here; --secret-file keeps others "
        "out");
  }
  if (!(choice.keep_days >= 0 && choice.keep_days <= 1e6)) {
    return wrong("--keep-incomplete: 0 to 1000000 days");
  }
  auto sink = transfer::Sink::open(
      choice.folder, {.overwrite = choice.overwrite,
                      .sync = choice.sync,
                      .keep_seconds = static_cast<int64_t>(choice.keep_days * 24 * 3600)});
  if (!sink) {
    report.error(kNotDone, "io", sink.error());
    return report.finish();
  }
  auto fabric = transfer_fabric(choice.ends, report);
  if (fabric == nullptr) return report.finish();
  ReceiveBar bar(report.shows_progress());
  options.on_progress = [&](const transfer::Progress& progress) { bar.show(progress); };
  options.on_stored = [&](const std::string& path, uint64_t bytes) {
    bar.clear();
    show_line(report, {{"stored", path}, {"bytes", bytes}},
              fmt::format("{}  {}", transfer::shown(path), report.size(bytes)));
  };
  options.on_refused = [&](const std::string& path, const std::string& why) {
    bar.clear();
    report.note(fmt::format("'{}' is not stored: {}", transfer::shown(path), why));
    if (report.json()) show_line(report, {{"refused", path}, {"why", why}}, {});
  };
  options.on_ended = [&](const std::string& why) {
    bar.clear();
    if (!why.empty()) report.note("a transfer ended: " + why);
  };
  transfer::Receiver receiver(std::move(options), std::move(fabric), std::move(*sink));
  const auto at = receiver.start();
  if (!at) {
    report.error(kNotDone, "listen", at.error());
    return report.finish();
  }
  receiving = &receiver;
  struct sigaction action{};
  action.sa_handler = on_receive_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const std::string where = text_of(ServerAddress{at->host, at->port});
  if (report.json()) {
    show_line(report, {{"ready", true}, {"listen", where}, {"port", at->port}}, {});
  } else {
    print("ready {}\n", where);
    static_cast<void>(flush_output());  // finish_service() tells
  }
  receiver.run();
  receiving = nullptr;
  bar.clear();
  const transfer::ReceiverTotals& totals = receiver.totals();
  show_line(report,
            {{"ended", true},
             {"files", totals.stored},
             {"failed", totals.failed},
             {"bytes", totals.bytes},
             {"broken", totals.broken}},
            fmt::format("{} stored, {}", totals.stored, report.size(totals.bytes)));
  if (choice.once && (totals.failed > 0 || totals.broken > 0)) {
    report.error(kNotDone, "failed", "not everything that was sent is stored");
    return report.json() ? kNotDone : report.finish();
  }
  return report.finish_service();
}

}  // namespace

cli::Command receive_command() {
  const auto choice = std::make_shared<ReceiveChoice>();
  cli::Command command = describe("receive", kAboutReceive);
  command.word("DIR", choice->folder, "folder to store files in")
      .option("--listen", choice->listen, "ADDRESS[:PORT]",
              "where to listen (default: all addresses, port 12345)")
      .flag("--once", choice->once, "end after the first sender; fails unless all is stored")
      .flag("--overwrite", choice->overwrite, "replace files that are there already")
      .flag("--sync", choice->sync, "a file that is stored is on the disk")
      .option("--max-size", choice->max_size, "SIZE", "of a file (default 1T)")
      .option("--keep-incomplete", choice->keep_days, "DAYS",
              "how long incomplete files can be resumed (default 30)");
  add_transfer_options(command, choice->ends);
  command.flag("--json", choice->speech.json, "print one JSON document per line")
      .flag("--bytes", choice->speech.bytes, "show sizes in bytes")
      .flag("-q,--quiet", choice->speech.quiet, "print only the ready line and errors");
  add_progress_option(command, choice->speech);
  command.footer(
      "Exit status: 0 after it was stopped, 1 failure, 2 usage error. See verbena-send(1).");
  return command.action([choice] { return receive(*choice); });
}

}  // namespace verbena::store_cli
