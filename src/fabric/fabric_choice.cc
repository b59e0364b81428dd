// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "fabric/ofi_fabric.h"
#include "fabric/several_fabrics.h"

namespace verbena::fabric {

Result<FabricChoice> parse_fabric(std::string_view text) {
  constexpr std::string_view kOfi = "ofi:";
  if (text == "verbs") return FabricChoice{};
  if (text == "ofi") return FabricChoice{OfiOptions{}.provider};
  if (text.starts_with(kOfi) && text.size() > kOfi.size()) {
    return FabricChoice{std::string(text.substr(kOfi.size()))};
  }
  return fail(fmt::format("'{}' is not one of: verbs, ofi, ofi:PROVIDER", text));
}

Result<std::unique_ptr<Fabric>> open_fabric(const FabricChoice& choice,
                                            const VerbsOptions& options) {
  if (choice.provider.empty()) return open_verbs_fabric(options);
  return open_ofi_fabric({.provider = choice.provider,
                          .libraries = options.libraries,
                          .message_bytes = options.message_bytes,
                          .receives = std::min(options.receives, OfiOptions{}.receives),
                          .sends = options.sends,
                          .sends_per_connection = options.sends_per_connection,
                          .work_requests = options.work_requests,
                          .max_connections = options.max_connections});
}

Result<std::unique_ptr<Fabric>> open_fabrics(std::vector<FabricChoice> choices,
                                             const VerbsOptions& options) {
  if (choices.empty()) choices.emplace_back();
  std::vector<std::unique_ptr<Fabric>> fabrics;
  for (const FabricChoice& choice : choices) {
    auto opened = open_fabric(choice, options);
    if (!opened) return opened;
    const bool twice = std::ranges::any_of(
        fabrics, [&](const auto& other) { return other->kind() == (*opened)->kind(); });
    if (twice) return fail(fmt::format("the fabric {} is given twice", (*opened)->kind()));
    fabrics.push_back(std::move(*opened));
  }
  return SeveralFabrics::open(std::move(fabrics));
}

}  // namespace verbena::fabric
