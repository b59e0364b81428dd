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

Two processes of this host, an initiator and a target, exchange every RDMA operation over real RoCEv2
packets on UDP port 4791. It takes no RDMA hardware, no kernel module and no root. First each
operation is run with messages of a few sizes and random data, and whoever receives it compares it to
the last byte ("verified"). Then each is run again and again for a moment ("timed").

  RC  reliable connection: what is lost is sent again, in order, and acknowledged
  UC  unreliable connection: in order, and a lost packet costs the message
  UD  datagrams: one packet each, to anyone
  SEND        the target has posted a buffer for the message (a receive), and is told when it has come;
              "with immediate": with 32 bits for it, "with invalidate": takes a key back
  WRITE, READ, COMPARE-SWAP, FETCH-ADD
              work on the target's memory; its program sleeps meanwhile

The packets of the verified part are written to a capture that Wireshark and tshark open (filter:
infiniband). Rates are of this machine's loopback, with both processes on it; `./dev bench device`
measures with care.

  --ipv6        over ::1 instead of 127.0.0.1
  --burst-ms N  how long each operation is timed, 0 to 10000; 0: not at all (200)
  --json        the result for a script
  --simulated   instead: two simulated hosts on a network that loses, doubles, corrupts and swaps some
                packets, told packet by packet; the same each time
  --limits      instead: how many queue pairs, regions and so on a process may have, and how large
  --seed N      other data (1); simulated, other keys and numbers too
  --pcap FILE   where the capture goes (verbena-demo.pcap)
  --help        this

Exit status: 0, all data is right; 1, it is not, or the run could not be made; 2, a wrong option.
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
