// SPDX-License-Identifier: Apache-2.0
#include "fabric/library_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace verbena::fabric {

void* LibraryLoader::open(const char* name) {
  if (!error_.empty()) return nullptr;
  const std::string path = folder_.empty() ? name : folder_ + "/" + name;
  void* const library =
      dlopen(folder_ == kProgram ? nullptr : path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) error_ = dlerror();
  return library;
}

void* LibraryLoader::find(void* library, const char* name) {
  if (!error_.empty()) return nullptr;
  void* const found = dlsym(library, name);
  if (found == nullptr) error_ = fmt::format("{} is missing: {}", name, dlerror());
  return found;
}

}  // namespace verbena::fabric
