// SPDX-License-Identifier: Apache-2.0
// Memory, as newer releases of rdma-core have it: registration by attributes, and buffers that the
// library allocates. What is for memory of other devices (DMA-buf, processing hints of PCIe) is
// not there.
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

// Whether a registration lies within the buffer that it names.
[[nodiscard]] bool lies_in_buffer(ibv_pd* pd, const MrInitAttr& attr) {
  if (attr.buf == nullptr || !of(attr.buf).is_alive()) return false;
  const BufObject& buf = of(attr.buf);
  const uintptr_t base = reinterpret_cast<uintptr_t>(buf.addr);
  const uintptr_t addr = reinterpret_cast<uintptr_t>(attr.addr);
  return buf.pd == pd && addr >= base && addr - base <= buf.size &&
         attr.length <= buf.size - (addr - base);
}

[[nodiscard]] size_t in_pages(size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

ibv_mr* reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* shown) {
  constexpr uint64_t kKnown =
      kRegMrIova | kRegMrAddr | kRegMrFd | kRegMrFdOffset | kRegMrDmah | kRegMrBuf;
  if (!is_alive(pd) || shown == nullptr) return none(EINVAL);
  const MrInitAttr& attr = *reinterpret_cast<const MrInitAttr*>(shown);
  const bool by_fd = (attr.comp_mask & (kRegMrFd | kRegMrFdOffset)) != 0;
  const bool by_addr = (attr.comp_mask & kRegMrAddr) != 0;
  if ((attr.comp_mask & ~kKnown) != 0) return none(EOPNOTSUPP);
  if (by_fd == by_addr) return none(EINVAL);
  // Memory of other devices, and handles that none could be made of.
  if (by_fd || (attr.comp_mask & kRegMrDmah) != 0) return none(EOPNOTSUPP);
  if ((attr.comp_mask & kRegMrBuf) != 0 && !lies_in_buffer(pd, attr)) return none(EINVAL);
  const uint64_t iova =
      (attr.comp_mask & kRegMrIova) != 0 ? attr.iova : reinterpret_cast<uintptr_t>(attr.addr);
  return guarded([&] {
    return register_memory(pd, attr.addr, attr.length, iova, static_cast<unsigned>(attr.access));
  });
}

ibv_dmah* alloc_dmah(ibv_context*, ibv_dmah_init_attr*) { return none(EOPNOTSUPP); }
int dealloc_dmah(ibv_dmah*) { return with_errno(EOPNOTSUPP); }

int dm_export_dmabuf_fd(ibv_dm*) {
  errno = EOPNOTSUPP;
  return -1;
}

void* alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf) {
  if (!is_alive(pd) || buf == nullptr || size == 0) return none(EINVAL);
  return guarded([=]() -> void* {
    const size_t bytes = in_pages(size);
    if (bytes < size) return none(ENOMEM);
    auto object = std::make_unique<BufObject>();
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return none(ENOMEM);
    object->pd = pd;
    object->addr = memory;
    object->size = size;
    *buf = reinterpret_cast<ibv_buf*>(object.release());
    return memory;
  });
}

void free_buf(ibv_buf* buf) {
  if (buf == nullptr || !of(buf).claim()) return;
  ::munmap(of(buf).addr, in_pages(of(buf).size));
  of(buf).retire();
}

}  // namespace verbena::verbs

using namespace verbena::verbs;

VERBENA_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr) {
  return reg_mr_ex(pd, attr);
}
VERBENA_EXPORT ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr) {
  return alloc_dmah(context, attr);
}
VERBENA_EXPORT int ibv_dealloc_dmah(ibv_dmah* dmah) { return dealloc_dmah(dmah); }
VERBENA_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm* dm) { return dm_export_dmabuf_fd(dm); }
VERBENA_EXPORT void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf) {
  return alloc_buf(pd, size, buf);
}
VERBENA_EXPORT void ibv_free_buf(ibv_buf* buf) { free_buf(buf); }

VERBENA_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, size_t length,
                                      int access) {
  MrInitAttr attr{};
  attr.length = length;
  attr.access = access;
  attr.comp_mask = kRegMrBuf | kRegMrAddr;
  attr.addr = addr;
  attr.buf = buf;
  return reg_mr_ex(pd, reinterpret_cast<ibv_mr_init_attr*>(&attr));
}

// It is ordinary memory.
VERBENA_EXPORT int ibv_export_buf_dmabuf_fd(ibv_buf* buf) {
  errno = buf != nullptr && of(buf).is_alive() ? ENODATA : EINVAL;
  return -1;
}
