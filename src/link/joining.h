// SPDX-License-Identifier: Apache-2.0
// How a newcomer comes by the shared table: from whichever member answers first, or by making it
// when there is none. Under the group's lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "link/membership.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::link {

[[nodiscard]] Result<TableMapping, MembershipError> obtain_table(const GroupNames& names,
                                                                 RandomSource& random);

// The port itself, then those that serve this host only when it is taken.
[[nodiscard]] std::vector<uint16_t> candidate_ports(uint16_t port);
[[nodiscard]] bool has_members(const GroupNames& names);
// For a person: what cannot be done, and why.
[[nodiscard]] std::string this_host_only_because(uint16_t taken, uint16_t instead);

// What to tell a person when the port cannot be bound: who has it, and what to do.
[[nodiscard]] MembershipError port_taken(uint16_t port, int code);

}  // namespace verbena::link
