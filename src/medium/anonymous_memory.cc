// SPDX-License-Identifier: Apache-2.0
#include "medium/anonymous_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <linux/mman.h>  // of which older C libraries have not all
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>

#include "base/check.h"
#include "medium/backend.h"
#include "medium/pages.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

// A preference: bound memory would have the process killed when the node is full, not moved over.
Result<void> prefer_node(uint8_t* memory, size_t bytes, int node) {
  if (node < 0 || ::numa_available() < 0) return {};
  std::array<unsigned long, 16> mask{};
  constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  const auto bit = static_cast<size_t>(node);
  if (bit >= mask.size() * kBits || ::numa_bitmask_isbitset(::numa_all_nodes_ptr, node) == 0) {
    return fail(
        Error{Code::kBad, "NUMA node " + std::to_string(node) +
                              " does not exist, or has no memory that this process may use"});
  }
  mask.at(bit / kBits) = 1UL << bit % kBits;
  if (::mbind(memory, bytes, MPOL_PREFERRED, mask.data(), mask.size() * kBits, 0) != 0 &&
      errno != ENOSYS && errno != EPERM) {  // containers refuse it: memory then is where it is
    return system_error(Code::kNoMemory, "binding memory to NUMA node " + std::to_string(node),
                        errno);
  }
  return {};
}

Result<void> populate(uint8_t* memory, size_t bytes) {
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return {};
  if (errno != EINVAL) {
    return system_error(Code::kNoMemory, "populating " + size_text(bytes) + " of memory", errno);
  }
  for (size_t at = 0; at < bytes; at += kPage) {  // before Linux 5.14
    *static_cast<volatile uint8_t*>(memory + at) = 0;
  }
  return {};
}

}  // namespace

AnonymousMemory::AnonymousMemory(size_t block_bytes, uint32_t capacity,
                                 const AnonymousOptions& options)
    : block_bytes_(block_bytes), capacity_(capacity), options_(options) {
  VERBENA_CHECK(block_bytes > 0 && block_bytes % kPage == 0);
  group_blocks_ = static_cast<uint32_t>(
      std::clamp<size_t>(options.group_bytes / block_bytes, 1, std::max(capacity, 1U)));
  taken_.resize((capacity + group_blocks_ - 1) / group_blocks_);
}

Result<std::unique_ptr<AnonymousMemory>> AnonymousMemory::reserve(size_t block_bytes,
                                                                  uint32_t capacity,
                                                                  const AnonymousOptions& options) {
  std::unique_ptr<AnonymousMemory> memory(new AnonymousMemory(block_bytes, capacity, options));
  const size_t bytes = block_bytes * capacity + kHugePage;
  void* reserved =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return system_error(Code::kNoMemory, "reserving address space of " + size_text(bytes), errno);
  }
  memory->reserved_ = static_cast<uint8_t*>(reserved);
  memory->reserved_bytes_ = bytes;
  const size_t past = reinterpret_cast<uintptr_t>(reserved) % kHugePage;
  memory->base_ = memory->reserved_ + (past == 0 ? 0 : kHugePage - past);
  return memory;
}

AnonymousMemory::~AnonymousMemory() {
  for (uint32_t group = 0; group < taken_.size(); ++group) {
    if (taken_[group] != 0 && options_.registrar != nullptr) {
      options_.registrar->remove(group_memory(group), group_bytes(group));
    }
  }
  if (reserved_ != nullptr) ::munmap(reserved_, reserved_bytes_);
}

uint8_t* AnonymousMemory::group_memory(uint32_t group) const {
  return address_of(group * group_blocks_);
}

size_t AnonymousMemory::group_bytes(uint32_t group) const {
  return std::min(group_blocks_, capacity_ - group * group_blocks_) * block_bytes_;
}

Result<void> AnonymousMemory::map_group(uint32_t group) {
  uint8_t* memory = group_memory(group);
  const size_t bytes = group_bytes(group);
  if (::mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) == MAP_FAILED) {
    return system_error(Code::kNoMemory, "mapping " + size_text(bytes) + " of memory", errno);
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: kernels without huge pages refuse it
  Result<void> done = prefer_node(memory, bytes, options_.numa_node);
  if (done && options_.prefault) done = populate(memory, bytes);
  if (done && options_.registrar != nullptr) done = options_.registrar->add(memory, bytes);
  if (!done) unmap_group(group);
  return done;
}

// The addresses stay reserved.
void AnonymousMemory::unmap_group(uint32_t group) {
  VERBENA_CHECK(::mmap(group_memory(group), group_bytes(group), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                       0) != MAP_FAILED);
}

Result<uint8_t*> AnonymousMemory::take(uint32_t position) {
  const uint32_t group = position / group_blocks_;
  if (taken_[group] == 0) {
    if (auto mapped = map_group(group); !mapped) return fail(mapped.error());
  }
  ++taken_[group];
  return address_of(position);
}

void AnonymousMemory::give(uint32_t position) {
  const uint32_t group = position / group_blocks_;
  VERBENA_CHECK(taken_[group] > 0);
  if (--taken_[group] == 0) {
    if (options_.registrar != nullptr) {
      options_.registrar->remove(group_memory(group), group_bytes(group));
    }
    unmap_group(group);
  } else if (options_.registrar == nullptr) {
    // A device would go on with the pages that it has pinned, and we with others: registered memory
    // stays until the whole group goes.
    ::madvise(address_of(position), block_bytes_, MADV_DONTNEED);
  }
}

}  // namespace verbena::medium
