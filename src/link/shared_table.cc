// SPDX-License-Identifier: Apache-2.0
#include "link/shared_table.h"

#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "link/sealed_memory.h"
#include "link/table_lock.h"

namespace verbena::link {

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
  UniqueFd fd = make_sealed_memory(name, sizeof(SharedTable));
  if (!fd.valid()) return fail(Error::kSystem);
  auto mapping = map(std::move(fd));
  if (!mapping) return mapping;
  SharedTable& table = mapping->table();
  table.version = SharedTable::kVersion;
  table.bytes = sizeof(SharedTable);
  table.key = key;
  TableLock::prepare(table);
  table.magic = SharedTable::kMagic;
  return mapping;
}

Result<TableMapping, TableMapping::Error> TableMapping::adopt(UniqueFd fd) {
  const auto size = sealed_size(fd.get());
  if (!size) return fail(Error::kNotOurs);
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
      *size != sizeof(SharedTable)) {
    return fail(Error::kVersion);
  }
  return map(std::move(fd));
}

}  // namespace verbena::link
