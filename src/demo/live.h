// SPDX-License-Identifier: Apache-2.0
// The live run: two processes of this host exchange every operation over real UDP packets. First
// each with its data compared, captured at the initiator; then each timed, without capture.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "demo/burst.h"
#include "demo/verified.h"

namespace verbena::demo {

struct LiveOptions {
  uint64_t seed = 1;  // of the data
  std::string pcap = "verbena-demo.pcap";
  std::chrono::milliseconds burst{200};  // for each operation; 0: none
  EndOptions end;
};

struct LiveRow {
  const Operation* operation = nullptr;
  Verdict verdict;
  Rate rate;
};

struct LiveResult {
  std::string problem;  // why it could not be run to the end; empty: it was
  std::string notice;   // the device's, why only this host can be reached
  uint16_t port = 0;
  uint64_t frames = 0;  // in the capture
  std::vector<LiveRow> rows;

  [[nodiscard]] bool good() const;
};

[[nodiscard]] LiveResult run_live(const LiveOptions& options);

}  // namespace verbena::demo
