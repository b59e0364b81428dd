// SPDX-License-Identifier: Apache-2.0
#include "link/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blocked_signals.h"

namespace verbena::link {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

UniqueFd make_sealed_memory(const char* name, size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fd;
  // Beyond the limit of a file's size (ulimit -f) the kernel would end the program.
  const BlockedSignals blocked{SIGXFSZ};
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    fd.reset();
  }
  return fd;
}

std::optional<size_t> sealed_size(int fd) {
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) return std::nullopt;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  return static_cast<size_t>(status.st_size);
}

}  // namespace verbena::link
