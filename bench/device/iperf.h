// SPDX-License-Identifier: Apache-2.0
// iperf3 over TCP loopback: what an ordinary socket gives on this machine, in the same run.
#pragma once

#include <optional>

namespace verbena::bench {

struct TcpResult {
  double bytes_per_second = 0;
  double cpu_seconds_per_gib = 0;  // both ends
};

// Empty where iperf3 is not installed or fails, with a message on stderr.
[[nodiscard]] std::optional<TcpResult> tcp_loopback(double seconds);

}  // namespace verbena::bench
