// SPDX-License-Identifier: Apache-2.0
// The abstract unix names of this network namespace, as the kernel lists them. Any user can have
// any number of names, so whoever lists them says how long it may take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include <sys/types.h>

#include "base/time.h"

namespace verbena::link {

struct NamedSocket {
  std::string_view name;       // without the zero that it begins with
  std::optional<uid_t> owner;  // nothing: the kernel does not tell (before Linux 5.3)
};
// False: that is enough.
using NameVisitor = std::function<bool(const NamedSocket&)>;

enum class Which : uint8_t { kAll, kListening };

// By unix_diag, until `until` (monotonic_now()). False: the kernel has none (CONFIG_UNIX_DIAG), and
// nothing was visited.
[[nodiscard]] bool visit_names(Which which, Time until, const NameVisitor& visit);
// The same of names that are listened on, from /proc/net/unix, which names no owner.
void visit_names_in_proc(Time until, const NameVisitor& visit);

}  // namespace verbena::link
