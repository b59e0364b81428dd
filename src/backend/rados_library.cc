// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_library.h"

#include <string>

#include <dlfcn.h>

namespace verbena::backend {
namespace {

constexpr const char* kRadosFile = "librados.so.2";

[[nodiscard]] Result<RadosLibrary> find_rados() {
  void* const handle = dlopen(kRadosFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    return fail(
        Error{Code::kUnsupported,
              std::string("RADOS needs librados (on Debian: apt install librados2): ") + dlerror(),
              {}});
  }
  RadosLibrary library;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    void* const found = dlsym(handle, name);
    if (found == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define VERBENA_RADOS_FIND(name) find(library.name, "rados_" #name);
  VERBENA_RADOS_FUNCTIONS(VERBENA_RADOS_FIND)
#undef VERBENA_RADOS_FIND
  if (missing == nullptr) return library;
  return fail(Error{
      Code::kUnsupported, std::string(kRadosFile) + " is too old: " + missing + " is missing", {}});
}

}  // namespace

Result<const RadosLibrary*> RadosLibrary::load() {
  static const Result<RadosLibrary> library = find_rados();
  if (!library) return fail(library.error());
  return &*library;
}

}  // namespace verbena::backend
