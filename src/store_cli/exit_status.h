// SPDX-License-Identifier: Apache-2.0
// With what the store's commands exit: the same for all of them, and documented in
// verbena-store(1). A command that a signal ended exits with 128 + its number.
#pragma once

#include "store/error.h"

namespace verbena::store_cli {

enum ExitStatus : int {
  kDone = 0,
  kNotDone = 1,       // for a reason that is none of the following, and is said
  kUsage = 2,         // a wrong command, option or argument
  kNoObject = 3,      // there is no such object
  kDamaged = 4,       // what is stored is not what was written
  kFull = 5,          // no room in the store or on its disk
  kInUse = 6,         // another process has the store
  kNoStore = 7,       // there is no store in the folder
  kExists = 8,        // the object, name or folder is there already
  kForeign = 9,       // the store is of a format that this program does not know
  kUnreachable = 10,  // the server cannot be reached, or did not answer in time
};

[[nodiscard]] ExitStatus exit_status_of(store::Code code);

}  // namespace verbena::store_cli
