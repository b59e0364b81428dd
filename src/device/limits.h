// SPDX-License-Identifier: Apache-2.0
// Limits on everything, as a query prints them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "device/gid_table.h"
#include "transport/endpoint.h"

namespace verbena::device {

struct DeviceLimits {
  uint32_t max_qp = 16'384;
  uint32_t max_qp_wr = 32'768;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint32_t max_cq = 65'536;
  uint32_t max_cqe = 4'194'303;  // one less than a power of two: completion_queue.h
  uint32_t max_pd = 65'536;
  uint32_t max_mr = 131'072;
  uint32_t max_mw = 65'536;
  uint64_t max_mr_bytes = uint64_t{1} << 46;
  uint32_t max_srq = 16'384;
  uint32_t max_rd_atomic = 128;
  uint32_t max_groups = static_cast<uint32_t>(transport::Groups::kMaxGroups);
  uint32_t max_group_members = static_cast<uint32_t>(transport::Groups::kMaxMembers);
  uint32_t max_gids = static_cast<uint32_t>(GidTable::kMaxEntries);
};

struct LimitRow {
  std::string_view name;
  uint64_t value = 0;
};

// All of them, by name, for a command that prints them.
[[nodiscard]] std::vector<LimitRow> rows_of(const DeviceLimits& limits);

}  // namespace verbena::device
