// SPDX-License-Identifier: Apache-2.0
#include "medium/words.h"

#include <array>
#include <cstdint>
#include <string>
#include <system_error>

#include <sys/resource.h>

#include "base/result.h"
#include "medium/backend.h"

namespace verbena::medium {

std::string size_text(uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  size_t unit = 0;
  uint64_t below = bytes % 1024;
  uint64_t whole = bytes / 1024;
  while (whole >= 1024) {
    below = whole % 1024;
    whole /= 1024;
    ++unit;
  }
  const uint64_t tenths = below * 10 / 1024;
  return std::to_string(whole) + (tenths != 0 ? "." + std::to_string(tenths) : "") + " " +
         kUnits.at(unit);
}

std::unexpected<Error> system_error(Code code, const std::string& what, int error) {
  return fail(Error{code, what + ": " + std::system_category().message(error)});
}

std::string memlock_advice(uint64_t bytes) {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  const std::string now = !known                            ? "not known"
                          : limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                                            : size_text(limit.rlim_cur);
  return "RLIMIT_MEMLOCK must cover the " + size_text(bytes) +
         " and all memory registered before; it is " + now +
         "; raise it with `ulimit -l` or LimitMEMLOCK=";
}

}  // namespace verbena::medium
