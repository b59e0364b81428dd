// SPDX-License-Identifier: Apache-2.0
// Memory regions.
#include "verbs/objects.h"
#include "verbs/operations.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::verbs {
namespace {

// What a program may ask for; hints that a software device has no use for are taken and ignored.
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_ON_DEMAND | IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kPassedOn = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                               memory::kRemoteAtomic | memory::kMwBind | memory::kZeroBased |
                               memory::kOnDemand;
constexpr bool same(memory::Access ours, ibv_access_flags theirs) {
  return static_cast<uint32_t>(ours) == static_cast<uint32_t>(theirs);
}
static_assert(same(memory::kLocalWrite, IBV_ACCESS_LOCAL_WRITE) &&
              same(memory::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE) &&
              same(memory::kRemoteRead, IBV_ACCESS_REMOTE_READ) &&
              same(memory::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC) &&
              same(memory::kMwBind, IBV_ACCESS_MW_BIND) &&
              same(memory::kZeroBased, IBV_ACCESS_ZERO_BASED) &&
              same(memory::kOnDemand, IBV_ACCESS_ON_DEMAND));

// Huge pages, relaxed ordering: nothing to do.
constexpr unsigned kIgnored = IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING;

[[nodiscard]] ibv_mr* show_region(ibv_pd* pd, std::shared_ptr<device::Mr> made, uint32_t handle) {
  auto mr = std::make_unique<MrObject>();
  static_cast<ibv_mr&>(*mr) = {.context = pd->context,
                               .pd = pd,
                               .addr = made->base,
                               .length = made->length,
                               .handle = handle,
                               .lkey = made->lkey.value,
                               .rkey = made->rkey.value};
  mr->mr = std::move(made);
  return mr.release();
}

// A new region gets a handle, too.
[[nodiscard]] ibv_mr* show_region(ibv_pd* pd, std::shared_ptr<device::Mr> made) {
  const uint32_t handle = of(pd->context).session->mrs.add(made);
  return show_region(pd, std::move(made), handle);
}

// What ibv_rereg_mr gives: the first where rdma-core's library refuses by itself, the second where
// the kernel would. The region is as it was after either.
[[nodiscard]] int bad_input(int error) {
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;
}
[[nodiscard]] int refused(int error) {
  errno = error;
  return IBV_REREG_MR_ERR_CMD;
}

}  // namespace

ibv_mr* register_memory(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access) {
  if (!is_alive(pd) || (access & ~(kKnownAccess | kIgnored)) != 0) return none(EINVAL);
  // As the kernel: without bytes there are no pages to be fetched on demand.
  if (length == 0 && (access & IBV_ACCESS_ON_DEMAND) != 0) return none(EINVAL);
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  auto made = of(pd->context).device.reg_mr(*of(pd).pd, addr, length, iova, access & kPassedOn);
  if (!made) return none(made.error());
  return show_region(pd, std::move(*made));
}

ibv_mr* import_region(ibv_pd* pd, uint32_t handle) {
  if (!is_alive(pd)) return none(EINVAL);
  auto found = of(pd->context).session->mrs.find(handle);
  if (found == nullptr) return none(ENOENT);
  if (found->pd != of(pd).pd.get()) return none(EINVAL);
  ibv_mr* const mr = show_region(pd, std::move(found), handle);
  mr->addr = nullptr;  // as the man page says: it may mean nothing here
  of(mr).plain = false;
  return mr;
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  if (!is_alive(pd)) return none(EINVAL);
  return guarded([=]() -> ibv_mr* {
    auto made = of(pd->context).device.null_mr(*of(pd).pd);
    if (!made) return none(made.error());
    ibv_mr* const mr = show_region(pd, std::move(*made));
    // As ibv_alloc_null_mr(3) has it. perftest gives the lkey to its peer, which a ConnectX takes.
    mr->rkey = 0;
    of(mr).plain = false;
    return mr;
  });
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list,
              uint32_t count) {
  return guarded([=] {
    if ((flags & ~static_cast<uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0) return EINVAL;
    if (!is_alive(pd) || list == nullptr || count == 0) return EINVAL;
    device::Prefetch how{.wait = (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0};
    switch (advice) {
      case IBV_ADVISE_MR_ADVICE_PREFETCH:          break;
      case IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE:    how.writable = true; break;
      case IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: how.fault = false; break;
      default:                                     return EOPNOTSUPP;
    }
    return of(pd->context)
        .device.prefetch(*of(pd).pd, {reinterpret_cast<const memory::Sge*>(list), count}, how);
  });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                        unsigned access) {
  return guarded([=] { return register_memory(pd, addr, length, iova, access); });
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                       int access) {
  return ibv_reg_mr_iova2(pd, addr, length, iova, static_cast<unsigned>(access));
}

VERBENA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<uintptr_t>(addr),
                          static_cast<unsigned>(access));
}

VERBENA_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  return guarded([=] {
    if (!is_alive(mr)) return EINVAL;
    MrObject& object = of(mr);
    return destroy(object, [&] {
      const int error = of(mr->context).device.dereg_mr(*object.mr);
      if (error != 0) return error;
      of(mr->context).session->mrs.remove(mr->handle);
      if (object.memory != nullptr) object.memory->regions.fetch_sub(1);
      return 0;
    });
  });
}

VERBENA_EXPORT int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                                int access) {
  constexpr int kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  constexpr unsigned kAnyRemote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (!is_alive(mr)) return bad_input(EINVAL);
  MrObject& object = of(mr);
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if ((flags & ~kKnown) != 0) return bad_input(EINVAL);
  if (moves && (addr == nullptr || length == 0)) return bad_input(EINVAL);
  if (!rights && access != 0) return bad_input(EINVAL);
  if (flags == 0) return refused(EINVAL);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && (!is_alive(pd) || pd->context != mr->context)) {
    return refused(EINVAL);
  }
  if (!object.plain) return refused(EOPNOTSUPP);
  device::RegionChange change;
  uint32_t after = object.mr->access;
  if (rights) {
    if ((static_cast<unsigned>(access) & ~(kKnownAccess | kIgnored)) != 0) return refused(EINVAL);
    after = static_cast<unsigned>(access) & kPassedOn;
    // A region without remote rights has no rkey. Programs that give it some later read its rkey
    // before, for elsewhere it stays the same: better that they hear it here than from a peer.
    if ((object.mr->access & kAnyRemote) == 0 && (after & kAnyRemote) != 0) {
      return refused(EOPNOTSUPP);
    }
    change.access = after;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) change.pd = of(pd).pd.get();
  if (moves || ((object.mr->access ^ after) & IBV_ACCESS_ZERO_BASED) != 0) {
    void* const start = moves ? addr : object.mr->base;
    const bool zero_based = (after & IBV_ACCESS_ZERO_BASED) != 0;
    change.place = {start, moves ? length : object.mr->length,
                    zero_based ? 0 : reinterpret_cast<uintptr_t>(start)};
  }
  const int error = of(mr->context).device.rereg_mr(*object.mr, change);
  if (error != 0) return refused(error);
  if (change.pd != nullptr) mr->pd = pd;
  mr->addr = object.mr->base;
  mr->length = object.mr->length;
  mr->lkey = object.mr->lkey.value;
  mr->rkey = object.mr->rkey.value;
  return 0;
}
