// SPDX-License-Identifier: Apache-2.0
// Shared memory that libfabric's endpoints on this host have as files: which a process that is
// killed leaves behind.
#pragma once

#include <string>
#include <string_view>

namespace verbena::fabric {

// Of the names of endpoints: followed by the process's id and a dash.
inline constexpr const char* kRegionPrefix = "verbena-ofi-";

// Whether an address that a peer has told, with a zero at its end, can be that of such an endpoint:
// it names a file.
[[nodiscard]] bool is_region_name(std::string_view address);

// Removes those that are ours and whose processes are gone.
void remove_stale_regions(const std::string& directory = "/dev/shm");
// Of an endpoint that has its peer: nobody else opens it, and what has no name is gone with its
// processes.
void remove_region_name(const std::string& node, const std::string& directory = "/dev/shm");

}  // namespace verbena::fabric
