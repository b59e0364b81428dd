// SPDX-License-Identifier: Apache-2.0
// Protection domains and memory regions.
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

[[nodiscard]] ibv_mr* register_memory(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                      unsigned access) {
  // Huge pages, relaxed ordering: nothing to do.
  constexpr unsigned kIgnored = IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING;
  if ((access & ~(kKnownAccess | kIgnored)) != 0 || length == 0) return none(EINVAL);
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  PdObject& domain = of(pd);
  auto made = of(pd->context).device.reg_mr(*domain.pd, addr, length, iova, access & kPassedOn);
  if (!made) return none(made.error());
  auto mr = std::make_unique<MrObject>();
  static_cast<ibv_mr&>(*mr) = {.context = pd->context,
                               .pd = pd,
                               .addr = addr,
                               .length = length,
                               .handle = (*made)->lkey.value >> 8,
                               .lkey = (*made)->lkey.value,
                               .rkey = (*made)->rkey.value};
  mr->mr = std::move(*made);
  return mr.release();
}

}  // namespace

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return guarded([=]() -> ibv_pd* {
    auto made = of(context).device.alloc_pd();
    if (!made) return none(made.error());
    auto pd = std::make_unique<PdObject>();
    pd->context = context;
    pd->handle = (*made)->id.value;
    pd->pd = std::move(*made);
    return pd.release();
  });
}

VERBENA_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  const int error = of(pd->context).device.dealloc_pd(*of(pd).pd);
  if (error == 0) delete &of(pd);
  return error;
}

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
  const int error = of(mr->context).device.dereg_mr(*of(mr).mr);
  if (error == 0) delete &of(mr);
  return error;
}
