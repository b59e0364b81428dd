// SPDX-License-Identifier: Apache-2.0
// The environment variables that the libraries look at; nobody else reads the environment.
#pragma once

namespace verbena::verbs {

// VERBENA_VERBOSE, set and not 0: what goes wrong is said on stderr as well. A guest in another's
// process is silent otherwise.
[[nodiscard]] bool wants_messages();

}  // namespace verbena::verbs
