// SPDX-License-Identifier: Apache-2.0
// Device memory: a stretch of this process's own, of a size that a device might have. Programs
// reach it by copies of whole aligned words and by keys, never by address.
#include "verbs/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

constexpr size_t kWord = 4;
constexpr size_t kLeastAlignment = 64;
constexpr uint32_t kLargestLogAlignment = 16;

// Of all contexts of this process.
std::atomic<size_t> allocated{0};

[[nodiscard]] bool take(size_t length) {
  size_t before = allocated.load(std::memory_order_relaxed);
  do {
    if (length > kDeviceMemoryBytes - before) return false;
  } while (!allocated.compare_exchange_weak(before, before + length, std::memory_order_relaxed));
  return true;
}

[[nodiscard]] int check(const DeviceMemory& memory, uint64_t offset, size_t length) {
  if (offset % kWord != 0 || length % kWord != 0) return EINVAL;
  if (offset > memory.length || length > memory.length - offset) return EINVAL;
  return 0;
}

int copy_to(ibv_dm* dm, uint64_t offset, const void* from, size_t length) {
  return guarded([=] {
    if (!is_alive(dm) || from == nullptr) return EINVAL;
    DeviceMemory& memory = *of(dm).memory;
    if (const int error = check(memory, offset, length); error != 0) return error;
    std::memcpy(memory.bytes + offset, from, length);
    return 0;
  });
}

int copy_from(void* to, ibv_dm* dm, uint64_t offset, size_t length) {
  return guarded([=] {
    if (!is_alive(dm) || to == nullptr) return EINVAL;
    const DeviceMemory& memory = *of(dm).memory;
    if (const int error = check(memory, offset, length); error != 0) return error;
    std::memcpy(to, memory.bytes + offset, length);
    return 0;
  });
}

[[nodiscard]] std::shared_ptr<DeviceMemory> make_memory(size_t length, size_t alignment) {
  auto memory = std::make_shared<DeviceMemory>();
  if (!take(length)) return nullptr;
  memory->length = length;
  const size_t room = (length + alignment - 1) / alignment * alignment;
  memory->bytes = static_cast<uint8_t*>(std::aligned_alloc(alignment, room));
  if (memory->bytes == nullptr) return nullptr;
  std::memset(memory->bytes, 0, room);
  return memory;
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  std::free(bytes);
  allocated.fetch_sub(length, std::memory_order_relaxed);
}

ibv_dm* show_memory(ibv_context* context, std::shared_ptr<DeviceMemory> memory, uint32_t handle) {
  auto dm = std::make_unique<DmObject>();
  static_cast<ibv_dm&>(*dm) = {.context = context,
                               .memcpy_to_dm = copy_to,
                               .memcpy_from_dm = copy_from,
                               .comp_mask = 0,
                               .handle = handle};
  dm->memory = std::move(memory);
  return dm.release();
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  if (!is_alive(context) || attr == nullptr) return none(EINVAL);
  if (attr->comp_mask != 0 || attr->log_align_req > kLargestLogAlignment) return none(EINVAL);
  if (attr->length == 0) return none(EINVAL);
  if (attr->length > kDeviceMemoryBytes) return none(ENOMEM);
  return guarded([=]() -> ibv_dm* {
    const size_t alignment = std::max(size_t{1} << attr->log_align_req, kLeastAlignment);
    auto memory = make_memory(attr->length, alignment);
    if (memory == nullptr) return none(ENOMEM);
    const uint32_t handle = of(context).session->memories.add(memory);
    return show_memory(context, std::move(memory), handle);
  });
}

int free_dm(ibv_dm* dm) {
  return guarded([=] {
    if (!is_alive(dm)) return EINVAL;
    return destroy(of(dm), [=] {
      if (of(dm).memory->regions.load() != 0) return EBUSY;
      of(dm->context).session->memories.remove(dm->handle);
      return 0;
    });
  });
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access) {
  if (!are_alive(pd, dm)) return none(EINVAL);
  DeviceMemory& memory = *of(dm).memory;
  // Known by offsets alone; there are no pages to fault in.
  if ((access & IBV_ACCESS_ZERO_BASED) == 0) return none(EINVAL);
  if ((access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)) != 0) return none(EINVAL);
  if (check(memory, offset, length) != 0)
    return none(EINVAL);  // of no bytes: rdma-core's suite wants it
  return guarded([&]() -> ibv_mr* {
    ibv_mr* const mr = register_memory(pd, memory.bytes + offset, length, 0, access);
    if (mr == nullptr) return nullptr;
    mr->addr = nullptr;
    of(mr).plain = false;
    of(mr).memory = of(dm).memory;
    memory.regions.fetch_add(1);
    return mr;
  });
}

}  // namespace verbena::verbs
