// SPDX-License-Identifier: Apache-2.0
// How a newcomer comes by the shared table: from whichever member answers first, or by making it
// when there is none. Under the group's lock, unless another user has its name.
//
// It tries the plain names of members. The names of the host are listed (member_names.h) only when
// there must be members that have others: nobody answers at those, but sockets of this user are on
// the port, where nobody else can put any.
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

struct Obtained {
  TableMapping mapping;
  UniqueFd claim;  // of the port, if the table is new: others have to look for it
};
// Two that find nobody do not both make a table: who makes it is who has the port.
[[nodiscard]] Result<Obtained, MembershipError> obtain_table(const GroupNames& names, uint16_t port,
                                                             RandomSource& random);

// The port itself, then those that serve this host only when it is taken.
[[nodiscard]] std::vector<uint16_t> candidate_ports(uint16_t port);
[[nodiscard]] bool has_members(const GroupNames& names, uint16_t port);
// Whether a socket of this user has it, which others of this user share; or a claim on it does.
[[nodiscard]] bool is_port_of_ours(uint16_t port);
// For a person: another user has this name.
[[nodiscard]] std::string name_held_by(const std::string& name, const NameHolder& holder);
// For a person: what cannot be done, and why.
[[nodiscard]] std::string this_host_only_because(uint16_t taken, uint16_t instead);

// What to tell a person when the port cannot be bound: who has it, and what to do.
[[nodiscard]] MembershipError port_taken(uint16_t port, int code);

}  // namespace verbena::link
