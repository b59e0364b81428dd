// SPDX-License-Identifier: Apache-2.0
// Import of contexts, protection domains, regions and device memory, inside a process. A context is
// known by its command descriptor, a file of its own that any duplicate leads to. Another process's
// device is not reached by its descriptor: EOPNOTSUPP.
#include "verbs/import.h"

#include <map>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mutex.h"
#include "verbs/device_memory.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

using FileId = std::pair<dev_t, ino_t>;

[[nodiscard]] bool file_of(int fd, FileId& id) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return false;
  id = {status.st_dev, status.st_ino};
  return true;
}

// Open sessions by their file. Leaked on purpose: programs call in from their exit handlers.
struct Sessions {
  Mutex mutex;
  std::map<FileId, std::weak_ptr<Session>> open VERBENA_GUARDED_BY(mutex);
};
Sessions& sessions() {
  static auto* const instance = new Sessions;
  return *instance;
}

}  // namespace

int open_session(const std::shared_ptr<Session>& session) {
  const int fd = ::memfd_create("verbena", MFD_CLOEXEC);
  FileId id;
  if (fd < 0 || !file_of(fd, id)) return fd;
  const MutexLock lock(sessions().mutex);
  std::erase_if(sessions().open, [](const auto& entry) { return entry.second.expired(); });
  sessions().open[id] = session;
  return fd;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_context* ibv_import_device(int cmd_fd) {
  return guarded([=]() -> ibv_context* {
    FileId id;
    if (!file_of(cmd_fd, id)) return none(EBADF);
    std::shared_ptr<Session> session;
    {
      const MutexLock lock(sessions().mutex);
      const auto place = sessions().open.find(id);
      if (place != sessions().open.end()) session = place->second.lock();
    }
    if (session == nullptr) return none(EOPNOTSUPP);
    return open_context(std::move(session), cmd_fd);
  });
}

VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return guarded([=]() -> ibv_pd* {
    if (!is_alive(context)) return none(EINVAL);
    auto found = of(context).session->pds.find(handle);
    if (found == nullptr || found->abandoned) return none(ENOENT);
    auto pd = std::make_unique<PdObject>();
    static_cast<ibv_pd&>(*pd) = {.context = context, .handle = handle};
    pd->pd = std::move(found);
    return pd.release();
  });
}

VERBENA_EXPORT void ibv_unimport_pd(ibv_pd* pd) {
  // Also when what it stands for is gone.
  if (pd != nullptr) (void)destroy(of(pd), [] { return 0; });
}

VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  return guarded([=] { return import_region(pd, handle); });
}

VERBENA_EXPORT void ibv_unimport_mr(ibv_mr* mr) {
  if (is_alive(mr)) (void)destroy(of(mr), [] { return 0; });
}

VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  return guarded([=]() -> ibv_dm* {
    if (!is_alive(context)) return none(EINVAL);
    auto found = of(context).session->memories.find(handle);
    if (found == nullptr) return none(ENOENT);
    return show_memory(context, std::move(found), handle);
  });
}

VERBENA_EXPORT void ibv_unimport_dm(ibv_dm* dm) {
  if (is_alive(dm)) (void)destroy(of(dm), [] { return 0; });
}
