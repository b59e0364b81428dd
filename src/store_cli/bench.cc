// SPDX-License-Identifier: Apache-2.0
// `verbena bench`: how fast a store reads and writes, on a server or in a directory.
#include <charconv>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "store_cli/bench_load.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAboutBench =
    R"text(Reads and writes at random places of objects of its own, one size after the other, and prints how
many requests and bytes per second there were, and how long they took. The objects are removed at
the end, and other objects are not touched. Each request under way is a thread of this process. On a
server each client is a connection; in a directory all of them use one store.

  verbena bench --server node1
  verbena bench --server node1 --size 64,4K,1M --clients 4 --depth 8 --reads 90
  verbena bench --data /srv/store --size 4K --reads 0 --flush --count 1000      durable writes
  verbena bench --server node1 --json | jq '.runs[].reads.latency_ns.p99'
)text";

constexpr uint64_t kMaxRequestBytes = 16 << 20;  // what a server takes at once
constexpr uint64_t kMaxThreads = 256;
constexpr double kMaxSeconds = 86'400;
constexpr double kUsualSeconds = 2;

struct BenchOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> sizes;
  std::string depth = "1";
  std::string clients = "1";
  std::string reads = "50";
  std::string span = "16M";
  std::string count;
  std::string seed = "1";
  double seconds = 0;
  bool verify = false;
  bool flush = false;
};

struct BenchPlan {
  std::vector<uint64_t> sizes;
  uint32_t clients = 1;
  BenchLoad load{};
};

[[nodiscard]] Result<uint64_t, std::string> parse_bounded(const char* option,
                                                          const std::string& text, uint64_t least,
                                                          uint64_t most) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end || value < least || value > most) {
    return fail(fmt::format("{}: '{}' is not a number from {} to {}", option, text, least, most));
  }
  return value;
}

// "4K,1M": the option may also be repeated.
[[nodiscard]] Result<std::vector<uint64_t>, std::string> parse_sizes(
    const std::vector<std::string>& given) {
  std::vector<uint64_t> sizes;
  for (std::string_view left : given) {
    for (bool more = true; more;) {
      const size_t comma = left.find(',');
      more = comma != std::string_view::npos;
      const auto size = parse_size(left.substr(0, comma));
      if (!size) return fail("--size: " + size.error());
      if (*size == 0 || *size > kMaxRequestBytes) {
        return fail(
            fmt::format("--size: {} is not a size of 1 byte to 16 MiB", left.substr(0, comma)));
      }
      sizes.push_back(*size);
      left.remove_prefix(more ? comma + 1 : left.size());
    }
  }
  if (sizes.empty()) return std::vector<uint64_t>{4096, 65'536, 1 << 20};
  return sizes;
}

// The checks in the order of the help; each stores one number.
[[nodiscard]] Result<BenchPlan, std::string> bench_plan(const BenchOptions& options) {
  BenchPlan plan;
  auto sizes = parse_sizes(options.sizes);
  if (!sizes) return fail(sizes.error());
  plan.sizes = std::move(*sizes);
  const auto depth = parse_bounded("--depth", options.depth, 1, kMaxThreads);
  if (!depth) return fail(depth.error());
  const auto clients = parse_bounded("--clients", options.clients, 1, kMaxThreads);
  if (!clients) return fail(clients.error());
  if (*depth * *clients > kMaxThreads) {
    return fail(fmt::format("--clients {} times --depth {} is more than {} requests at once",
                            *clients, *depth, kMaxThreads));
  }
  const auto reads = parse_bounded("--reads", options.reads, 0, 100);
  if (!reads) return fail(reads.error());
  const auto span = parse_size(options.span);
  if (!span) return fail("--span: " + span.error());
  const auto seed = parse_bounded("--seed", options.seed, 0, UINT64_MAX);
  if (!seed) return fail(seed.error());
  if (!options.count.empty()) {
    const auto count = parse_bounded("--count", options.count, 1, UINT64_MAX);
    if (!count) return fail(count.error());
    plan.load.count = *count;
  }
  if (!(options.seconds >= 0 && options.seconds <= kMaxSeconds)) {
    return fail(fmt::format("--seconds: {} is not a time of up to {} seconds", options.seconds,
                            kMaxSeconds));
  }
  const bool bounded = plan.load.count > 0 || options.seconds > 0;
  const double seconds = bounded ? options.seconds : kUsualSeconds;
  plan.clients = static_cast<uint32_t>(*clients);
  plan.load.depth = static_cast<uint32_t>(*depth);
  plan.load.read_percent = static_cast<uint32_t>(*reads);
  plan.load.span_bytes = *span;
  plan.load.seed = *seed;
  plan.load.time = static_cast<Duration>(seconds * static_cast<double>(kSecond));
  plan.load.verify = options.verify;
  plan.load.flush = options.flush;
  return plan;
}

constexpr const char* kBenchRow =
    "{:>9}  {:<5}  {:>9}  {:>10}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}\n";

[[nodiscard]] std::string microseconds(uint64_t ns) {
  return fmt::format("{:.1f}", static_cast<double>(ns) / static_cast<double>(kMicrosecond));
}
[[nodiscard]] double rate(uint64_t count, Duration time) {
  return time <= 0 ? 0
                   : static_cast<double>(count) * static_cast<double>(kSecond) /
                         static_cast<double>(time);
}

void print_row(const char* what, uint64_t size, const LatencyHistogram& times, Duration time,
               const Report& report) {
  if (times.count() == 0) return;
  print(kBenchRow, report.size(size), what, times.count(),
        fmt::format("{:.0f}", rate(times.count(), time)),
        fmt::format("{:.1f}", rate(times.count() * size, time) / 1e6),
        microseconds(times.percentile_ns(0.5)), microseconds(times.percentile_ns(0.9)),
        microseconds(times.percentile_ns(0.99)), microseconds(times.percentile_ns(0.999)),
        microseconds(times.max_ns()));
}

[[nodiscard]] ordered_json bench_json(const LatencyHistogram& times, uint64_t size, Duration time) {
  auto histogram = ordered_json::array();
  times.each([&](uint64_t last_ns, uint64_t count) { histogram.push_back({last_ns, count}); });
  return {{"requests", times.count()},
          {"bytes", times.count() * size},
          {"requests_per_second", rate(times.count(), time)},
          {"bytes_per_second", rate(times.count() * size, time)},
          {"latency_ns",
           {{"min", times.min_ns()},
            {"mean", times.mean_ns()},
            {"p50", times.percentile_ns(0.5)},
            {"p90", times.percentile_ns(0.9)},
            {"p99", times.percentile_ns(0.99)},
            {"p999", times.percentile_ns(0.999)},
            {"max", times.max_ns()}}},
          {"histogram", std::move(histogram)}};
}

[[nodiscard]] ordered_json bench_json(const BenchResult& result, uint64_t size) {
  return {{"size", size},
          {"time_ns", result.time},
          {"reads", bench_json(result.reads, size, result.time)},
          {"writes", bench_json(result.writes, size, result.time)}};
}

// The stores of the clients: a connection each, or one directory for all of them.
class BenchClients {
 public:
  // False: `report` knows why.
  [[nodiscard]] bool open(const StoreChoice& choice, uint32_t count, Report& report) {
    const bool server = check_choice(choice, report) && place_of(choice) == Place::kServer;
    if (report.failed()) return false;
    for (uint32_t i = 0; i < (server ? count : 1); ++i) {
      auto opened = open_objects(choice, Need::kCreate, report);
      if (!opened) return false;
      opened_.push_back(std::move(*opened));
    }
    for (uint32_t i = 0; i < count; ++i) {
      stores_.push_back(&opened_[server ? i : 0].objects());
    }
    return true;
  }
  [[nodiscard]] std::span<store::Objects* const> stores() const { return stores_; }
  void close(Report& report) {
    if (!report.store_failed()) close_objects(opened_.front(), report);
  }

 private:
  std::vector<OpenedObjects> opened_;
  std::vector<store::Objects*> stores_;
};

int bench(const BenchOptions& options) {
  catch_interrupts();
  Report report("bench", options.speech);
  const auto plan = bench_plan(options);
  if (!plan) {
    report.error(kUsage, "invalid", plan.error());
    return report.finish();
  }
  BenchClients clients;
  if (!clients.open(options.store, plan->clients, report)) return report.finish();
  report.fields["clients"] = plan->clients;
  report.fields["depth"] = plan->load.depth;
  report.fields["read_percent"] = plan->load.read_percent;
  report.fields["verify"] = plan->load.verify;
  report.fields["flush"] = plan->load.flush;
  auto runs = ordered_json::array();
  if (!report.json() && !report.speech().quiet) {
    print(kBenchRow, "SIZE", "", "REQUESTS", "REQUESTS/S", "MB/S", "P50 us", "P90 us", "P99 us",
          "P99.9 us", "MAX us");
    static_cast<void>(flush_output());
  }
  BenchLoad load = plan->load;
  for (const uint64_t size : plan->sizes) {
    load.size_bytes = size;
    const auto result = run_load(clients.stores(), load);
    if (!result) {
      report.error(result.error());
      break;
    }
    runs.push_back(bench_json(*result, size));
    if (!report.json()) {
      print_row("read", size, result->reads, result->time, report);
      print_row("write", size, result->writes, result->time, report);
      static_cast<void>(flush_output());
    }
    if (const int signal = interrupted(); signal != 0) {
      report.interrupted(signal, "interrupted");
      break;
    }
  }
  report.fields["runs"] = std::move(runs);
  clients.close(report);
  return report.finish();
}

}  // namespace

cli::Command bench_command() {
  const auto options = std::make_shared<BenchOptions>();
  cli::Command command = describe("bench", kAboutBench);
  command
      .list("--size", options->sizes, "SIZES",
            "bytes of a request; several are measured one after the other,\n"
            "as in 64,4K,1M (default 4K,64K,1M)")
      .option("--reads", options->reads, "PERCENT",
              "so many of the requests are reads, the others writes\n(default 50)")
      .option("--depth", options->depth, "COUNT",
              "requests of a client under way at once (default 1)")
      .option("--clients", options->clients, "COUNT", "clients at once (default 1)")
      .option("--seconds", options->seconds, "SECONDS", "measure each size so long (default 2)")
      .option("--count", options->count, "COUNT",
              "end a size after so many requests of all clients")
      .option("--span", options->span, "SIZE", "size of each client's object, about (default 16M)")
      .flag("--verify", options->verify,
            "compare all that is read with what was written, beside the\n"
            "checksums, which are always compared")
      .flag("--flush", options->flush, "make each write durable before the next")
      .option("--seed", options->seed, "NUMBER", "of the random places and data (default 1)");
  add_store_options(command, options->store);
  add_writing_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return bench(*options); });
}

}  // namespace verbena::store_cli
