// SPDX-License-Identifier: Apache-2.0
// Which fabric, as people write it: "verbs", "ofi" or "ofi:PROVIDER".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/verbs_fabric.h"

namespace verbena::fabric {

struct FabricChoice {
  std::string provider{};  // of libfabric; empty: verbs
  bool operator==(const FabricChoice&) const = default;
};

[[nodiscard]] Result<FabricChoice> parse_fabric(std::string_view text);
// With what applies of these options, if it is of libfabric.
[[nodiscard]] Result<std::unique_ptr<Fabric>> open_fabric(const FabricChoice& choice,
                                                          const VerbsOptions& options);
// All of them as one; none: verbs.
[[nodiscard]] Result<std::unique_ptr<Fabric>> open_fabrics(std::vector<FabricChoice> choices,
                                                           const VerbsOptions& options);

}  // namespace verbena::fabric
