// SPDX-License-Identifier: Apache-2.0
#include "link/shared_table.h"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blocked_signals.h"

namespace verbena::link {
namespace {

// The size never changes: nobody can make our accesses fault.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

TableMapping::TableMapping(TableMapping&& other) noexcept
    : fd_(std::move(other.fd_)), table_(std::exchange(other.table_, nullptr)) {}

TableMapping& TableMapping::operator=(TableMapping&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(table_, other.table_);
  return *this;
}

TableMapping::~TableMapping() {
  if (table_ != nullptr) ::munmap(table_, sizeof(SharedTable));
}

void TableMapping::abandon() {
  fd_.reset();
  // What the child inherited is of no use, but what it still calls must find something to read. At
  // the same address: others refer to it.
  void* const at = ::mmap(table_, sizeof(SharedTable), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) table_ = nullptr;
}

Result<TableMapping, TableMapping::Error> TableMapping::map(UniqueFd fd) {
  void* const at =
      ::mmap(nullptr, sizeof(SharedTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return fail(Error::kSystem);
  (void)::madvise(at, sizeof(SharedTable), MADV_DONTDUMP);
  TableMapping mapping;
  mapping.fd_ = std::move(fd);
  mapping.table_ = static_cast<SharedTable*>(at);
  return mapping;
}

Result<TableMapping, TableMapping::Error> TableMapping::create(const char* name, uint64_t key) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail(Error::kSystem);
  {
    // Beyond the limit of a file's size (ulimit -f) the kernel would end the program.
    const BlockedSignals blocked{SIGXFSZ};
    if (::ftruncate(fd.get(), sizeof(SharedTable)) != 0) return fail(Error::kSystem);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return fail(Error::kSystem);
  auto mapping = map(std::move(fd));
  if (!mapping) return mapping;
  SharedTable& table = mapping->table();
  table.version = SharedTable::kVersion;
  table.bytes = sizeof(SharedTable);
  table.key = key;
  table.magic = SharedTable::kMagic;
  return mapping;
}

Result<TableMapping, TableMapping::Error> TableMapping::adopt(UniqueFd fd) {
  struct stat status{};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return fail(Error::kSystem);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return fail(Error::kNotOurs);
  struct {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;
  } head{};
  if (::pread(fd.get(), &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head) ||
      head.magic != SharedTable::kMagic) {
    return fail(Error::kNotOurs);
  }
  if (head.version != SharedTable::kVersion || head.bytes != sizeof(SharedTable) ||
      status.st_size != static_cast<off_t>(sizeof(SharedTable))) {
    return fail(Error::kVersion);
  }
  return map(std::move(fd));
}

}  // namespace verbena::link
