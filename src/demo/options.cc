// SPDX-License-Identifier: Apache-2.0
#include "demo/options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace verbena::demo {
namespace {

constexpr uint64_t kLongestBurstMs = 10'000;

[[nodiscard]] std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// An option with a value; gives what is wrong with it, or nothing.
[[nodiscard]] std::string set(Options& options, const std::string& option,
                              const std::string& value) {
  if (option == "--pcap") {
    options.pcap = value;
    return "";
  }
  const auto number = number_in(value);
  if (!number) return option + " wants a whole number, not '" + value + "'";
  if (option == "--seed") {
    options.seed = *number;
  } else if (*number > kLongestBurstMs) {
    return option + " is at most " + std::to_string(kLongestBurstMs);
  } else {
    options.burst = std::chrono::milliseconds(*number);
  }
  return "";
}

}  // namespace

const char* const kHelp = R"(verbena-demo [--ipv6] [--burst-ms N] [--seed N] [--pcap FILE] [--json]
verbena-demo --simulated [--seed N] [--pcap FILE]
verbena-demo --limits [--json]

Two processes on this host, an initiator and a target, run every RDMA operation over RoCEv2
packets on UDP port 4791. This needs no RDMA hardware, no kernel module and no root. First each
operation runs with messages of several sizes and random data, and the receiver compares every
byte ("verified"). Then each operation runs repeatedly for a short time ("timed").

  RC  reliable connection: packets are acknowledged, lost packets are retransmitted, in order
  UC  unreliable connection: in order; a lost packet loses the message
  UD  datagrams: one packet each, to any destination
  SEND        the target posts a buffer for the message (a receive) and gets a completion for it;
              "with immediate": carries 32 bits of data, "with invalidate": invalidates a key
  WRITE, READ, COMPARE-SWAP, FETCH-ADD
              access the target's memory; its program sleeps meanwhile

The packets of the verified part are written to a capture that Wireshark and tshark can open (filter:
infiniband). Rates are those of the loopback interface with both processes on this machine; `./dev bench
device` measures more carefully.

  --ipv6        use ::1 instead of 127.0.0.1
  --burst-ms N  time for each timed operation, 0 to 10000; 0 disables timing (default 200)
  --json        print the result as JSON
  --simulated   instead: two simulated hosts on a network that loses, duplicates, corrupts and reorders
                packets, printed packet by packet; the same each time
  --limits      instead: print the limits of a process (queue pairs, regions, sizes, ...)
  --seed N      seed of the data (default 1); with --simulated, also of keys and numbers
  --pcap FILE   file of the capture (default verbena-demo.pcap)
  --help        print this help

Exit status: 0, all data was verified; 1, data was wrong or the run failed; 2, invalid option.
)";

Result<Options, std::string> parse_options(std::span<const char* const> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--simulated") {
      options.simulated = true;
    } else if (argument == "--limits") {
      options.limits = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--ipv6") {
      options.ipv6 = true;
    } else if (argument == "--seed" || argument == "--pcap" || argument == "--burst-ms") {
      if (++i == arguments.size()) return fail(argument + " wants a value");
      std::string wrong = set(options, argument, arguments[i]);
      if (!wrong.empty()) return fail(std::move(wrong));
    } else {
      return fail("unknown option '" + argument + "'");
    }
  }
  if (options.limits && std::ranges::any_of(arguments, [](const std::string_view argument) {
        return argument != "--limits" && argument != "--json" && argument != "--help" &&
               argument != "-h";
      })) {
    return fail(std::string("--limits goes with --json alone"));
  }
  if (options.simulated && (options.json || options.ipv6)) {
    return fail(std::string("--simulated goes with --seed and --pcap alone"));
  }
  return options;
}

}  // namespace verbena::demo
