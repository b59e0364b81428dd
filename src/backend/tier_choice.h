// SPDX-License-Identifier: Apache-2.0
// A tier as people name it.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "backend/rados_tier.h"
#include "backend/s3_tier.h"
#include "backend/tier.h"

namespace verbena::backend {

struct DirectoryChoice {
  std::string path;
};
using TierChoice = std::variant<DirectoryChoice, RadosOptions, S3Options>;

// "dir:PATH", "rados:POOL[/NAMESPACE][?conf=FILE&user=NAME&timeout=SECONDS&lease=SECONDS]" or
// "s3:BUCKET[/PREFIX]?endpoint=URL[&region=NAME&style=path|host&timeout=SECONDS&lease=SECONDS]".
// The error says what can be written.
[[nodiscard]] verbena::Result<TierChoice, std::string> parse_tier(const std::string& text);

[[nodiscard]] Result<std::unique_ptr<Tier>> open_tier(const TierChoice& choice);

}  // namespace verbena::backend
