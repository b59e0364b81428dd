// SPDX-License-Identifier: Apache-2.0
#include "ucx.h"

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "command_output.h"
#include "common/ends.h"

namespace verbena::bench {

std::optional<UcxResult> ucx_shared(UcxTest test, uint32_t bytes, uint32_t count) {
  const int port = 20'000 + ::getpid() % 20'000;
  const std::string setting = "UCX_TLS=posix,cma,self UCX_LOG_LEVEL=error";
  const std::string command = fmt::format(
      "{0} timeout 60 ucx_perftest -p {1} -c {2} >/dev/null 2>&1 & "
      "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
      "shown=$({0} timeout 60 ucx_perftest 127.0.0.1 -p {1} -c {3} -t {4} -s {5} -n {6} -f "
      "2>/dev/null) && echo \"$shown\" | tail -n 1 && break; done; wait",
      setting, port, core_of(Role::kTarget), core_of(Role::kInitiator),
      test == UcxTest::kTagLatency ? "tag_lat" : "tag_bw", bytes, count);
  std::istringstream text(command_output(command));
  std::vector<double> columns;
  for (double value = 0; text >> value;) columns.push_back(value);
  // iterations, median us, average us, overall us, MB/s average, MB/s overall, ...
  constexpr size_t kColumns = 6;
  if (columns.size() < kColumns) {
    std::fprintf(stderr, "bench: ucx_perftest gave no result; its comparison is left out.\n");
    return std::nullopt;
  }
  return UcxResult{columns[1], columns[5] * 1024 * 1024};
}

}  // namespace verbena::bench
