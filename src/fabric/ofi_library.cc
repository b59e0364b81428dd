// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_library.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/mutex.h"
#include "fabric/library_loader.h"

namespace verbena::fabric {
namespace {

// The providers read these when the library is first used.
void set_parameters() {
  // The shm provider would let a peer copy to and from this process's memory by the kernel
  // (process_vm_writev), past all keys, and after the endpoint was closed.
  setenv("FI_SHM_DISABLE_CMA", "1", 1);
  // The receiver of a long message would read it from the sender's memory: an endpoint with reads
  // under way cannot be closed (OfiFabric::may_close()), and of these nobody is told.
  setenv("FI_OFI_RXM_USE_RNDV_WRITE", "1", 1);
  // The buffers of an endpoint, of which there are 2048, and which are all filled with zeros when
  // it is made: 16 KiB each by default, and half of the time of a connection. A request with 4 KiB
  // of data fits. Both ends must have the same.
  setenv("FI_OFI_RXM_BUFFER_SIZE", "5120", 1);
  // How many of them wait for messages; by default 4096.
  setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", 0);
}

Result<OfiLibrary> load_functions(const std::string& verbs_folder) {
  set_parameters();
  if (!verbs_folder.empty()) {
    // libfabric takes those that are there already. Without them it does what needs no device.
    LibraryLoader verbs(verbs_folder);
    static_cast<void>(verbs.open("libibverbs.so.1"));
    static_cast<void>(verbs.open("librdmacm.so.1"));
    static_cast<void>(verbs.open("libefa.so.1"));
  }
  const std::string folder;  // wherever the system has it
  LibraryLoader loading(folder);
  void* const library = loading.open("libfabric.so.1");
  OfiLibrary all{};
  loading.find(library, "fi_getinfo", all.getinfo);
  loading.find(library, "fi_freeinfo", all.freeinfo);
  loading.find(library, "fi_dupinfo", all.dupinfo);
  loading.find(library, "fi_fabric", all.fabric);
  loading.find(library, "fi_strerror", all.strerror);
  if (!loading.error().empty()) {
    return fail(
        fmt::format("libfabric cannot be loaded: {} (Debian has it in the package libfabric1)",
                    loading.error()));
  }
  return all;
}

}  // namespace

Result<const OfiLibrary*> OfiLibrary::load(const std::string& verbs_folder) {
  static Mutex mutex;
  static std::optional<OfiLibrary> loaded VERBENA_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (!loaded) {
    auto library = load_functions(verbs_folder);
    if (!library) return fail(library.error());
    loaded = *library;
  }
  return &*loaded;
}

}  // namespace verbena::fabric
