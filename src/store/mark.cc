// SPDX-License-Identifier: Apache-2.0
#include "store/mark.h"

#include <algorithm>
#include <cerrno>

#include <sys/random.h>

#include "store/superblock.h"

namespace verbena::store {

std::optional<uint64_t> kernel_random() {
  uint64_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof value, 0);
  } while (got < 0 && errno == EINTR);
  return got == sizeof value ? std::optional(value) : std::nullopt;
}

Result<uint64_t> draw_random(const RandomNumbers& random) {
  if (const auto value = random()) return *value;
  return fail(Error{Code::kIo,
                    "the system gives no random numbers, without which a store cannot be opened "
                    "for writing",
                    {}});
}

Result<uint64_t> draw_mark(const RandomNumbers& random, uint32_t epoch) {
  const auto value = draw_random(random);
  if (!value) return value;
  constexpr uint32_t kDropped = 64 - (kEpochShift - 1);
  return uint64_t{epoch} << kEpochShift | std::max<uint64_t>(*value >> kDropped, 1);
}

}  // namespace verbena::store
