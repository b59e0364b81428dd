// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/options.h"

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>

namespace verbena::emulated {
namespace {

struct Unit {
  std::string_view name;
  double value;
};
constexpr std::array kRates{Unit{"", 1}, Unit{"k", 1e3}, Unit{"M", 1e6}, Unit{"G", 1e9}};
constexpr std::array kTimes{Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array kPercents{Unit{"", 1e4}, Unit{"%", 1e4}};  // in parts per million
constexpr std::array kNumbers{Unit{"", 1}};

struct Kind {
  std::span<const Unit> units;
  double most;
};
constexpr Kind kRate{kRates, 1e12};
constexpr Kind kTime{kTimes, 3600e9};
constexpr Kind kPercent{kPercents, 1e6};
constexpr Kind kBytes{kNumbers, 1e10};
constexpr Kind kMtu{kNumbers, 9'000};
constexpr Kind kFlag{kNumbers, 1};
constexpr Kind kSeed{kNumbers, 1e15};

[[nodiscard]] std::optional<double> read_value(const std::string& text, const Kind& kind) {
  size_t length = 0;
  double number = 0;
  try {
    number = std::stod(text, &length);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const std::string_view unit = std::string_view(text).substr(length);
  for (const Unit& known : kind.units) {
    const double value = number * known.value;
    if (unit == known.name && value >= 0 && value <= kind.most) return std::round(value);
  }
  return std::nullopt;
}

// Sets what an option names; false if there is none of this name.
[[nodiscard]] bool set(Options& options, std::string_view name, const std::string& text,
                       bool& good) {
  const auto into = [&](auto& field, const Kind& kind) {
    const auto value = read_value(text, kind);
    good = value.has_value();
    if (good) field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
    return true;
  };
  Impairments& link = options.impairments;
  if (name == "--rate") return into(link.rate_bps, kRate);
  if (name == "--delay") return into(link.delay, kTime);
  if (name == "--queue") return into(link.queue_bytes, kBytes);
  if (name == "--mark") return into(link.mark_bytes, kBytes);
  if (name == "--carries") return into(link.carried_bytes, kMtu);
  if (name == "--tells") return into(link.tells, kFlag);
  if (name == "--loss") return into(link.loss_ppm, kPercent);
  if (name == "--reorder") return into(link.reorder_ppm, kPercent);
  if (name == "--reorder-by") return into(link.reorder_by, kTime);
  if (name == "--jitter") return into(link.jitter, kTime);
  if (name == "--mtu") return into(options.mtu_bytes, kMtu);
  if (name == "--seed") return into(options.seed, kSeed);
  if (name == "--run-time") return into(options.run_time, kTime);
  return false;
}

}  // namespace

const char* usage() {
  return R"(verbena_emulated_link [OPTIONS]

Makes two network namespaces, joins them by a link that is emulated in this process, and prints a line
of JSON that names them, for nsenter --net=NAME. The hosts are 198.18.0.1 and .2, 2001:2::1 and ::2, each
on the interface wire0. For each line on standard input it prints what happened since the last one, as a
line of JSON; when standard input ends, the last time. Both directions are alike:

  --rate R         bits per second of IP packets, e.g. 100M, 1G; 0 (default): not limited
  --delay T        one way, e.g. 50us, 5ms
  --queue BYTES    before the link, drop-tail (default 1000000)
  --mark BYTES     set CE on ECT packets that find more than so many bytes in the queue
  --carries BYTES  larger IP packets vanish, though the interfaces take them; 0 (default): none do
  --tells 1        with --carries: senders over IPv4 are told by ICMP, as a router does
  --loss P         percent of packets lost behind the queue
  --reorder P      percent of packets delayed by --reorder-by T (default 1ms) more than others
  --jitter T       each packet is delayed by 0 to T more, and may overtake others
  --mtu BYTES      of both interfaces, at most 9000 (default 1500)
  --seed N         of loss, reordering and jitter (default 1)
  --run-time T     ends by itself after so long (default 600s)

Needs CAP_SYS_ADMIN and CAP_NET_ADMIN, e.g. `unshare --user --map-root-user`, and /dev/net/tun. Exit status
77: not allowed here; 2: wrong options.
)";
}

bool parse(int argc, char** argv, Options& options, std::string& problem) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return true;
    }
    if (i + 1 >= argc) {
      problem = "unknown option, or without a value: " + std::string(name);
      return false;
    }
    bool good = true;
    const std::string text = argv[++i];
    if (!set(options, name, text, good)) {
      problem = "unknown option: " + std::string(name);
      return false;
    }
    if (!good) {
      problem = "invalid value of " + std::string(name) + ": " + text;
      return false;
    }
  }
  constexpr uint32_t kLeastMtu = 1280;  // IPv6
  if (options.mtu_bytes < kLeastMtu) {
    problem = "--mtu must be 1280 to 9000";
    return false;
  }
  return true;
}

}  // namespace verbena::emulated
