// SPDX-License-Identifier: Apache-2.0
#include "fabric/key_library.h"

#include <optional>
#include <utility>

#include "base/mutex.h"
#include "fabric/library_loader.h"

namespace verbena::fabric {
namespace {

std::optional<KeyLibrary> load_keys(const std::string& folder) {
  KeyLibrary all{};
  LibraryLoader loader(folder);
  void* const verbs = loader.open("libibverbs.so.1");
  void* const keys = loader.open("libmlx5.so.1");
  loader.find(verbs, "ibv_qp_to_qp_ex", all.qp_to_qp_ex);
  loader.find(keys, "mlx5dv_is_supported", all.is_supported);
  loader.find(keys, "mlx5dv_create_qp", all.create_qp);
  loader.find(keys, "mlx5dv_qp_ex_from_ibv_qp_ex", all.qp_ex_from_ibv_qp_ex);
  loader.find(keys, "mlx5dv_create_mkey", all.create_mkey);
  loader.find(keys, "mlx5dv_destroy_mkey", all.destroy_mkey);
  loader.find(keys, "_mlx5dv_mkey_check", all.mkey_check);
  if (!loader.error().empty()) return std::nullopt;
  return all;
}

}  // namespace

const KeyLibrary* KeyLibrary::load(const std::string& folder) {
  static Mutex mutex;
  static std::optional<KeyLibrary> loaded VERBENA_GUARDED_BY(mutex);
  static bool tried VERBENA_GUARDED_BY(mutex) = false;
  const MutexLock lock(mutex);
  if (!std::exchange(tried, true)) loaded = load_keys(folder);
  return loaded ? &*loaded : nullptr;
}

}  // namespace verbena::fabric
