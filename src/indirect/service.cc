// SPDX-License-Identifier: Apache-2.0
#include "indirect/service.h"

#include <atomic>

#include <dlfcn.h>

namespace verbena::indirect {
namespace {

[[nodiscard]] keys::Service* find() {
  // A program with an ibv_pd has loaded it, perhaps where other libraries do not see its names.
  void* const library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  using Door = keys::Service* (*)();
  const auto door = reinterpret_cast<Door>(::dlvsym(library, keys::kSymbol, keys::kSymbolVersion));
  ::dlclose(library);
  return door != nullptr ? door() : nullptr;
}

}  // namespace

keys::Service* service() {
  // Not before it is found: libibverbs may be loaded later.
  static std::atomic<keys::Service*> found{nullptr};
  keys::Service* known = found.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  known = find();
  found.store(known, std::memory_order_release);  // pairs with the load: the same for all
  return known;
}

}  // namespace verbena::indirect
