// SPDX-License-Identifier: Apache-2.0
#include "backend/tier_choice.h"

#include <string_view>

#include <fmt/format.h>

#include "backend/directory_tier.h"

namespace verbena::backend {

verbena::Result<TierChoice, std::string> parse_tier(const std::string& text) {
  constexpr std::string_view kDirectory = "dir:";
  if (text.starts_with(kDirectory) && text.size() > kDirectory.size()) {
    return TierChoice{.path = text.substr(kDirectory.size())};
  }
  return fail(fmt::format("'{}' is not dir:PATH", text));
}

Result<std::unique_ptr<Tier>> open_tier(const TierChoice& choice) {
  auto opened = DirectoryTier::open(choice.path);
  if (!opened) return fail(opened.error());
  return std::unique_ptr<Tier>(std::move(*opened));
}

}  // namespace verbena::backend
