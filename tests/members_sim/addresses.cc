// SPDX-License-Identifier: Apache-2.0
// In place of src/link/local_addresses.cc and own_sources.cc: every address is this host's, and
// none comes or goes.
#include "link/local_addresses.h"
#include "link/own_sources.h"

namespace verbena::link {

LocalAddresses::LocalAddresses() = default;

bool LocalAddresses::look_up(const wire::Gid&) { return true; }

bool LocalAddresses::contains_by_now(const wire::Gid&) { return true; }

void LocalAddresses::on_ready() {}

void drop_own_sources(int, std::span<const wire::Gid>) {}

}  // namespace verbena::link
