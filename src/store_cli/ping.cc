// SPDX-License-Identifier: Apache-2.0
// `verbena ping`: whether a server answers, and how fast; as ping(8) does it.
#include <cerrno>
#include <charconv>
#include <cmath>
#include <ctime>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "client/remote.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/options.h"
#include "store_cli/ping_statistics.h"
#include "store_cli/print.h"
#include "store_cli/server_address.h"
#include "store_cli/server_choice.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutPing =
    R"text(Connects to the server as other commands do, then sends a ping each second over RDMA, until it is
interrupted, and prints a summary. The exit status is 0 if at least one was answered.

  verbena ping --server node1
  verbena ping --server '[fe80::1%eth0]:7471' -c 1000 -i 0 --quiet
)text";

constexpr double kLongestIntervalSeconds = 86'400;

struct PingOptions {
  ServerChoice server;
  Speech speech;
  std::string count;
  double interval_seconds = 1;
};

[[nodiscard]] bool parse_count(const std::string& text, uint64_t& count) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, count);
  return error == std::errc{} && parsed == end && count > 0;
}

[[nodiscard]] timespec later(timespec moment, double seconds) {
  constexpr long kSecondNs = 1'000'000'000;
  const double whole = std::floor(seconds);
  moment.tv_sec += static_cast<time_t>(whole);
  moment.tv_nsec += static_cast<long>((seconds - whole) * static_cast<double>(kSecondNs));
  if (moment.tv_nsec >= kSecondNs) {
    moment.tv_nsec -= kSecondNs;
    ++moment.tv_sec;
  }
  return moment;
}

// What has come back, told as it comes; and when it is time for the next.
class PingRun {
 public:
  PingRun(uint64_t count, double interval_seconds, std::string server, const Report& report)
      : count_(count),
        interval_seconds_(interval_seconds),
        server_(std::move(server)),
        report_(report) {
    clock_gettime(CLOCK_MONOTONIC, &next_);
  }
  // Whether another is to be sent, now.
  [[nodiscard]] bool take(const store::Result<Duration>& round_trip_ns) {
    if (round_trip_ns) {
      statistics_.answered(*round_trip_ns);
      if (times_.size() < kMaxTimes) times_.push_back(*round_trip_ns);
      if (!report_.json() && !report_.speech().quiet) {
        print("answer from {}: seq={} time={}\n", server_, statistics_.sent(),
              milliseconds(*round_trip_ns));
        static_cast<void>(flush_output());
      }
    } else {
      statistics_.lost();
      last_error_ = round_trip_ns.error();
      report_.note(fmt::format("seq={}: {}", statistics_.sent(), last_error_.what));
    }
    if (statistics_.sent() == count_ || output_error() != 0) return false;
    // At equal distances, however long an answer takes; but never two at once for that.
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    next_ = later(next_, interval_seconds_);
    if (now.tv_sec > next_.tv_sec || (now.tv_sec == next_.tv_sec && now.tv_nsec > next_.tv_nsec)) {
      next_ = now;
    }
    while (interrupted() == 0 &&
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next_, nullptr) == EINTR) {}
    return interrupted() == 0;
  }
  [[nodiscard]] const PingStatistics& statistics() const { return statistics_; }
  [[nodiscard]] const std::vector<Duration>& times_ns() const { return times_; }
  [[nodiscard]] const store::Error& last_error() const { return last_error_; }

 private:
  static constexpr size_t kMaxTimes = 10'000;
  const uint64_t count_;  // 0: no end
  const double interval_seconds_;
  const std::string server_;
  const Report& report_;
  timespec next_{};
  PingStatistics statistics_;
  std::vector<Duration> times_;  // the first ones
  store::Error last_error_{};
};

void show_pings(const PingRun& run, const std::string& server, Report& report) {
  const PingStatistics& all = run.statistics();
  report.fields["server"] = server;
  report.fields["sent"] = all.sent();
  report.fields["received"] = all.received();
  report.fields["min_ns"] = all.min_ns();
  report.fields["mean_ns"] = all.mean_ns();
  report.fields["max_ns"] = all.max_ns();
  report.fields["deviation_ns"] = all.deviation_ns();
  report.fields["round_trips_ns"] = run.times_ns();
  if (report.json()) return;
  print("{}: {} sent, {} answered\n", server, all.sent(), all.received());
  if (all.received() == 0) return;
  print("round trip: min {}, mean {}, max {}, deviation {}\n", milliseconds(all.min_ns()),
        milliseconds(all.mean_ns()), milliseconds(all.max_ns()), milliseconds(all.deviation_ns()));
}

int ping(const PingOptions& options) {
  catch_interrupts();
  Report report("ping", options.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "invalid", what);
    return report.finish();
  };
  uint64_t count = 0;
  if (!options.count.empty() && !parse_count(options.count, count)) {
    return wrong(fmt::format("--count: '{}' is not a number above 0", options.count));
  }
  if (!(options.interval_seconds >= 0 && options.interval_seconds <= kLongestIntervalSeconds)) {
    return wrong(fmt::format("--interval: {} is not a time of 0 to {} seconds",
                             options.interval_seconds, kLongestIntervalSeconds));
  }
  if (server_of(options.server).empty()) {
    return wrong("no server given: use --server HOST[:PORT] or set VERBENA_SERVER");
  }
  const auto remote = remote_options(options.server, report);
  if (!remote) return report.finish();
  const std::string server = text_of(ServerAddress{remote->host, remote->port});
  PingRun run(count, options.interval_seconds, server, report);
  const auto done = client::ping_server(
      *remote, [&](const store::Result<Duration>& answer) { return run.take(answer); });
  if (!done) {
    report.error(done.error(), server);
    return report.finish();
  }
  show_pings(run, server, report);
  if (run.statistics().received() > 0) return report.finish();
  if (run.statistics().sent() > 0) {
    report.error(run.last_error(), server);
  } else if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted");
  }
  return report.finish();
}

}  // namespace

cli::Command ping_command() {
  const auto options = std::make_shared<PingOptions>();
  cli::Command command = describe("ping", kAboutPing);
  command.option("-c,--count", options->count, "COUNT", "end after so many (default: no end)")
      .option("-i,--interval", options->interval_seconds, "SECONDS",
              "time between two of them; 0: as fast as possible (default 1)");
  add_server_options(command, options->server);
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return ping(*options); });
}

}  // namespace verbena::store_cli
