// SPDX-License-Identifier: Apache-2.0
#include "iperf.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "command_output.h"
#include "common/ends.h"

namespace verbena::bench {
std::optional<TcpResult> tcp_loopback(double seconds) {
  const int port = 20'000 + ::getpid() % 20'000;
  // The server ends after one client, and in any case after a while.
  const std::string command = fmt::format(
      "timeout 30 iperf3 -s -1 -B 127.0.0.1 -p {0} -A {1} >/dev/null 2>&1 & "
      "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; "
      "timeout 30 iperf3 -c 127.0.0.1 -p {0} -A {2} -t {3} -J 2>/dev/null && break; done; wait",
      port, core_of(Role::kTarget), core_of(Role::kInitiator), seconds);
  const std::string text = command_output(command);
  // A try that came too early prints an object with an error of its own.
  const size_t last = text.rfind("{\n\t\"start\"");
  const auto result =
      nlohmann::json::parse(last == std::string::npos ? "" : text.substr(last), nullptr, false);
  try {
    const auto& end = result.at("end");
    const double bytes = end.at("sum_received").at("bytes");
    const double took = end.at("sum_received").at("seconds");
    const auto& cpu = end.at("cpu_utilization_percent");
    const double busy =
        (cpu.at("host_total").get<double>() + cpu.at("remote_total").get<double>()) / 100 * took;
    return TcpResult{bytes / took, busy / (bytes / (1 << 30))};
  } catch (const nlohmann::json::exception&) {
    std::fprintf(stderr,
                 "bench: iperf3 gave no result; is it installed? Its comparison is left out.\n");
    return std::nullopt;
  }
}

}  // namespace verbena::bench
