// SPDX-License-Identifier: Apache-2.0
#include "store_cli/directory_options.h"

#include <fmt/format.h>

#include "store_cli/sizes.h"

namespace verbena::store_cli {

Result<store::DirectoryOptions, std::string> directory_options(const StoreChoice& choice,
                                                               size_t folders) {
  store::DirectoryOptions options;
  if (!(choice.wait_seconds >= 0)) {
    return fail(fmt::format("--wait: invalid time {}", choice.wait_seconds));
  }
  if (choice.kind == "staged") {
    options.kind = store::Kind::kStaged;
  } else if (choice.kind != "mapped") {
    return fail(fmt::format("--kind: '{}' is not one of: mapped, staged", choice.kind));
  }
  if (choice.sync == "each") {
    options.store.durability = store::Durability::kEach;
  } else if (choice.sync != "end") {
    return fail(fmt::format("--sync: '{}' is not one of: end, each", choice.sync));
  }
  if (!choice.capacity.empty()) {
    const auto bytes = parse_size(choice.capacity);
    if (!bytes) return fail("--capacity: " + bytes.error());
    options.capacity_bytes = *bytes;
    if (const auto enough = check_capacity(options, folders); !enough) return fail(enough.error());
  }
  return options;
}

Result<void, std::string> check_capacity(const store::DirectoryOptions& options, size_t folders) {
  // A block for data, and two for what the store needs itself.
  const uint64_t least = 3 * folders * options.chunks_per_block * store::kChunkBytes;
  if (options.capacity_bytes >= least) return {};
  return fail(fmt::format("--capacity: the minimum is {}", human_size(least)));
}

}  // namespace verbena::store_cli
