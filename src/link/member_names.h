// SPDX-License-Identifier: Apache-2.0
// At which name a member listens. As a rule it is the plain one of its slot, "<prefix>.<slot>".
// Where somebody else has bound that, it is "<prefix>.<slot>.<16 hexadecimal digits>" of 64 random
// bits, which nobody can bind first. Who has the shared table finds them there; who has not yet
// lists the names of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::link {

// The name of the member that has this slot now; nothing: nobody has, or it changes hands.
[[nodiscard]] std::optional<std::string> name_of_member(const GroupNames& names,
                                                        const SharedTable& table, uint8_t slot);
[[nodiscard]] uint64_t draw_suffix(RandomSource& random);

struct ListedMember {
  std::string name;
  bool has_suffix = false;
};
// Names of members of this group of this user that are listened on, with and without suffix. Some
// may be another user's where the kernel does not tell: who connects looks at the credentials.
// Others may have bound any number: it takes five seconds at most, and then some may be missing.
[[nodiscard]] std::vector<ListedMember> list_members(const GroupNames& names);

}  // namespace verbena::link
