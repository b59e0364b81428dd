// SPDX-License-Identifier: Apache-2.0
#include "device/limits.h"

namespace verbena::device {

std::vector<LimitRow> rows_of(const DeviceLimits& limits) {
  // As many names as fields, or it does not compile: a new limit is shown as well.
  const auto& [qp, qp_wr, sge, inline_bytes, cq, cqe, pd, mr, mw, mr_bytes, srq, rd_atomic, groups,
               group_members, gids] = limits;
  // clang-format off
  return {{"max_qp", qp},
          {"max_qp_wr", qp_wr},
          {"max_sge", sge},
          {"max_inline", inline_bytes},
          {"max_cq", cq},
          {"max_cqe", cqe},
          {"max_pd", pd},
          {"max_mr", mr},
          {"max_mw", mw},
          {"max_mr_bytes", mr_bytes},
          {"max_srq", srq},
          {"max_rd_atomic", rd_atomic},
          {"max_groups", groups},
          {"max_group_members", group_members},
          {"max_gids", gids}};
  // clang-format on
}

}  // namespace verbena::device
