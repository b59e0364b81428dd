// SPDX-License-Identifier: Apache-2.0
// A program may be started with its standard input, output or error closed (`>&-`). The next file
// it opens would then be that one: a store's, into which what is printed would go.
#pragma once

namespace verbena::cli {

// Puts something in their places that fails as a closed file does. Programs that are executed find
// them closed.
void guard_standard_files();

}  // namespace verbena::cli
