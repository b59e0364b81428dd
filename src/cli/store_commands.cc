// SPDX-License-Identifier: Apache-2.0
#include "cli/store_commands.h"

#include <cstdio>
#include <string>

#include <dlfcn.h>

#include "cli/installation.h"

namespace verbena::cli {

int run_store_command(int count, char** arguments) {
  const auto say = [&](const std::string& what) {
    std::fprintf(stderr, "verbena %s: %s\n", arguments[1], what.c_str());
    return 1;
  };
  const auto directory = own_directory();
  if (!directory) return say(directory.error());
  const std::string path = *directory + '/' + kStoreLibrary;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return say("cannot load the library of the store commands: " + std::string(::dlerror()));
  }
  // It is in the library's map.
  return reinterpret_cast<StoreMain*>(::dlsym(library, kStoreMain))(count, arguments);
}

}  // namespace verbena::cli
