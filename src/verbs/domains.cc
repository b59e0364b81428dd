// SPDX-License-Identifier: Apache-2.0
// Protection domains, parent domains, thread domains.
#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {

// A thread domain is a promise that one thread at a time uses what is in it. Nothing here would be
// faster for it.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (!is_alive(context) || attr == nullptr || attr->comp_mask != 0) return none(EINVAL);
  return guarded([=]() -> ibv_td* {
    auto td = std::make_unique<TdObject>();
    td->context = context;
    return td.release();
  });
}

int dealloc_td(ibv_td* td) {
  return guarded([=] {
    if (!is_alive(td)) return EINVAL;
    return destroy(of(td), [=] { return of(td).users != 0 ? EBUSY : 0; });
  });
}

// A program's allocators are for what a device reads by itself. Nothing here is: they are not
// called.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  // Memory that is shared with the host of a confidential guest is allowed, and never needed.
  constexpr uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                              IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kAllowUnprotectedMemory;
  if (attr == nullptr || !is_alive(attr->pd) || attr->pd->context != context) return none(EINVAL);
  if (!is_usable_in(context, attr->td)) return none(EINVAL);
  if ((attr->comp_mask & ~kKnown) != 0) return none(EINVAL);
  const bool allocators = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocators && (attr->alloc == nullptr || attr->free == nullptr)) return none(EINVAL);
  return guarded([=]() -> ibv_pd* {
    auto pd = std::make_unique<PdObject>();
    static_cast<ibv_pd&>(*pd) = {.context = context, .handle = attr->pd->handle};
    pd->pd = of(attr->pd).pd;
    pd->parent = &of(attr->pd);
    ++pd->parent->users;
    if (attr->td != nullptr) {
      pd->thread_domain = &of(attr->td);
      ++pd->thread_domain->users;
    }
    return pd.release();
  });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (!is_alive(context)) return none(EINVAL);
  return guarded([=]() -> ibv_pd* {
    auto made = of(context).device.alloc_pd();
    if (!made) return none(made.error());
    auto pd = std::make_unique<PdObject>();
    pd->context = context;
    pd->pd = std::move(*made);
    pd->handle = of(context).session->pds.add(pd->pd);
    return pd.release();
  });
}

VERBENA_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  return guarded([=] {
    if (!is_alive(pd)) return EINVAL;
    PdObject& object = of(pd);
    return destroy(object, [&] {
      if (object.users != 0) return EBUSY;
      if (object.parent != nullptr) {
        --object.parent->users;
        if (object.thread_domain != nullptr) --object.thread_domain->users;
        return 0;
      }
      const int error = of(pd->context).device.dealloc_pd(*object.pd);
      if (error == 0) of(pd->context).session->pds.remove(pd->handle);
      return error;
    });
  });
}
