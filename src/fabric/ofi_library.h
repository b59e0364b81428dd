// SPDX-License-Identifier: Apache-2.0
// libfabric, loaded at run time. Only these are functions of the library; all others go through
// tables of what they return.
#pragma once

#include <string>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "fabric/fabric.h"

namespace verbena::fabric {

struct OfiLibrary {
  decltype(&::fi_getinfo) getinfo;
  decltype(&::fi_freeinfo) freeinfo;
  decltype(&::fi_dupinfo) dupinfo;
  decltype(&::fi_fabric) fabric;
  decltype(&::fi_strerror) strerror;

  // Once; whoever asks again gets the same one. The error says how to get it. Its providers over
  // verbs use libibverbs and librdmacm of this folder (VerbsLibrary::load); empty: the system's.
  [[nodiscard]] static Result<const OfiLibrary*> load(const std::string& verbs_folder);
};

}  // namespace verbena::fabric
