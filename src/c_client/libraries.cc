// SPDX-License-Identifier: Apache-2.0
#include "c_client/libraries.h"

#include <filesystem>

#include <dlfcn.h>

#include "verbena/client.h"

namespace verbena::c_client {

namespace fs = std::filesystem;

Result<std::string, std::string> device_libraries() {
  Dl_info self{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&verbena_connect), &self) == 0) {
    return fail(std::string("cannot find out where libverbena-client.so.1 is"));
  }
  const fs::path own = fs::canonical(self.dli_fname, error).parent_path();
  for (const fs::path& folder : {own / "verbena", own, own.parent_path() / "verbena"}) {
    // A libibverbs.so.1 alone may be the system's.
    if (fs::exists(folder / "libibverbs.so.1", error) &&
        fs::exists(folder / "libverbena-paths.so", error)) {
      return folder.string();
    }
  }
  return fail("the libraries of the built-in device are not in " + (own / "verbena").string() +
              "; name an RDMA device of the system, or the directory they are in");
}

}  // namespace verbena::c_client
