// SPDX-License-Identifier: Apache-2.0
// `verbena send`: files and folders to a host where `verbena receive` waits for them.
#include <csignal>
#include <memory>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/options.h"
#include "store_cli/print.h"
#include "store_cli/progress.h"
#include "store_cli/server_address.h"
#include "store_cli/sizes.h"
#include "store_cli/transfer_ends.h"
#include "transfer/path.h"
#include "transfer/sender.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutSend =
    R"text(Sends files, and folders with all that is in them, over RDMA to a host where `verbena receive` runs.
Every byte is under a CRC32 from this file to the other. What was broken off is resumed when the same
command is given again: what is there already is compared, and only the rest is sent. Receivers that
are not Verbena's get the plain protocol, one file for each connection, without CRCs.

  verbena send results.tar node1
  verbena send -r photos notes.txt '[fe80::1%eth0]:12345'
  verbena send --limit-rate 50M --secret-file ~/.verbena-secret big.img node1
)text";

struct SendChoice {
  TransferChoice ends;
  Speech speech;
  std::vector<std::string> words;  // the last one is the host
  std::string limit_rate;
  double streams = 1;
  double window = 0;
  bool recursive = false;
  bool no_resume = false;
};

transfer::Sender* sending = nullptr;
volatile std::sig_atomic_t send_signal = 0;
void on_send_signal(int signal) {
  send_signal = signal;
  if (sending != nullptr) sending->stop();
}

ExitStatus status_of(transfer::Verdict verdict) {
  switch (verdict) {
    case transfer::Verdict::kExists:  return kExists;
    case transfer::Verdict::kFull:    return kFull;
    case transfer::Verdict::kDamaged: return kDamaged;
    default:                          return kNotDone;
  }
}
const char* code_of(transfer::Verdict verdict) {
  switch (verdict) {
    case transfer::Verdict::kExists:  return "exists";
    case transfer::Verdict::kFull:    return "full";
    case transfer::Verdict::kDamaged: return "damaged";
    case transfer::Verdict::kRefused: return "refused";
    default:                          return "failed";
  }
}

// What there is to send; false: `report` knows why not.
bool list_all(const SendChoice& choice, std::vector<transfer::SourceEntry>& entries,
              Report& report) {
  for (size_t i = 0; i + 1 < choice.words.size(); ++i) {
    const std::string& path = choice.words[i];
    const size_t before = entries.size();
    const auto listed = transfer::list_source(
        path, [&](transfer::SourceEntry&& entry) { entries.push_back(std::move(entry)); },
        [&](const std::string& what, const std::string& why) {
          report.error(kNotDone, "skipped", fmt::format("'{}' is not sent: {}", what, why));
        });
    if (!listed) {
      report.error(kNotDone, "io", listed.error());
      return false;
    }
    if (!choice.recursive && entries.size() > before && entries[before].file.folder) {
      report.error(kUsage, "invalid", fmt::format("'{}' is a folder: use -r", path));
      return false;
    }
  }
  return true;
}

void show_sent(const transfer::SenderTotals& totals, Report& report) {
  report.fields["files"] = totals.stored;
  report.fields["failed"] = totals.failed;
  report.fields["bytes"] = totals.bytes;
  report.fields["sent_bytes"] = totals.sent;
  report.fields["skipped_bytes"] = totals.skipped;
  report.fields["plain"] = totals.plain;
  if (report.json() || report.speech().quiet) return;
  print("{} stored, {}", totals.stored, report.size(totals.bytes));
  if (totals.skipped > 0) print(", of which {} needed no sending", report.size(totals.skipped));
  if (totals.failed > 0) print("; {} not stored", totals.failed);
  print("\n");
}

int send(const SendChoice& choice) {
  Report report("send", choice.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "invalid", what);
    return report.finish();
  };
  if (choice.words.size() < 2) return wrong("give at least one file, and the host to send it to");
  auto address = parse_server(choice.words.back(), transfer::kPlainPort);
  if (!address) return wrong(address.error());
  transfer::SenderOptions options;
  options.to = {address->host, address->port};
  if (!choice.limit_rate.empty()) {
    const auto rate = parse_size(choice.limit_rate);
    if (!rate || *rate == 0)
      return wrong("--limit-rate: " + (rate ? "0 is no rate" : rate.error()));
    options.bytes_per_second = *rate;
  }
  if (!(choice.streams >= 1 && choice.streams <= 16)) return wrong("--streams: 1 to 16");
  if (!(choice.window >= 0 && choice.window <= 64)) return wrong("--window: 1 to 64");
  options.streams = static_cast<uint32_t>(choice.streams);
  if (choice.window > 0) options.sending.window = static_cast<uint16_t>(choice.window);
  options.sending.resume = !choice.no_resume;
  auto secret = transfer_secret(choice.ends, report);
  if (!secret) return report.finish();
  options.secret = std::move(*secret);
  const auto liveness = transfer_liveness(choice.ends, report);
  if (!liveness) return report.finish();
  options.liveness = *liveness;
  std::vector<transfer::SourceEntry> entries;
  if (!list_all(choice, entries, report)) return report.finish();
  uint64_t all = 0;
  for (const auto& entry : entries) all += entry.file.size;
  auto fabric = transfer_fabric(choice.ends, report);
  if (fabric == nullptr) return report.finish();

  ProgressBar bar(report.shows_progress(), "sending", all);
  options.on_progress = [&](const transfer::Progress& progress) { show_progress(progress, bar); };
  options.on_failed = [&](const std::string& path, transfer::Verdict verdict,
                          const std::string& why) {
    bar.clear();
    report.error(status_of(verdict), code_of(verdict),
                 fmt::format("'{}' is not stored: {}", transfer::shown(path), why));
  };
  transfer::Sender sender(std::move(options), std::move(fabric));
  sending = &sender;
  struct sigaction action{};
  action.sa_handler = on_send_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto sent = sender.send(std::move(entries));
  sending = nullptr;
  bar.clear();
  if (!sent && send_signal != 0) {
    report.interrupted(send_signal, "interrupted; the same command resumes it");
  } else if (!sent) {
    report.error(kUnreachable, "broken", sent.error());
  }
  show_sent(sender.totals(), report);
  return report.finish();
}

}  // namespace

cli::Command send_command() {
  const auto choice = std::make_shared<SendChoice>();
  cli::Command command = describe("send", kAboutSend);
  command
      .words("FILE", "FILE... HOST[:PORT]", choice->words,
             "files, then the host; the default port is 12345")
      .flag("-r,--recursive", choice->recursive, "send folders with all that is in them")
      .flag("--no-resume", choice->no_resume, "send everything, whatever is there already")
      .option("--limit-rate", choice->limit_rate, "SIZE", "bytes per second at most, e.g. 50M")
      .option("--streams", choice->streams, "COUNT", "connections at once (default 1)")
      .option("--window", choice->window, "COUNT",
              "chunks under way at once (default: as many as the receiver takes)");
  add_transfer_options(command, choice->ends);
  add_speech_options(command, choice->speech, Shows::kSizes);
  add_progress_option(command, choice->speech);
  command.footer(
      "Exit status: 0 all is stored, 1 failure, 2 usage error, 4 damaged, 5 the receiver's disk is "
      "full,\n8 already exists, 10 receiver unreachable or lost. See verbena-send(1).");
  return command.action([choice] { return send(*choice); });
}

}  // namespace verbena::store_cli
