// SPDX-License-Identifier: Apache-2.0
// Context: protection domains, regions, windows, keys over other keys.
#include <cerrno>

#include "device/device.h"

namespace verbena::device {
namespace {

[[nodiscard]] int errno_of(memory::Error error) {
  switch (error) {
    case memory::Error::kBusy:    return EBUSY;
    case memory::Error::kTooMany: return ENOMEM;
    default:                      return EINVAL;
  }
}

}  // namespace

Outcome<std::unique_ptr<Pd>> Context::alloc_pd() {
  const Engine::Quiet locked(device_->engine());
  const auto id = locked.memory().allocate_pd();
  if (!id) return fail(errno_of(id.error()));
  auto pd = std::make_unique<Pd>();
  pd->context = this;
  pd->id = *id;
  pds_.insert(pd.get());
  return pd;
}

int Context::dealloc_pd(Pd& pd) {
  const Engine::Quiet locked(device_->engine());
  if (pd.users != 0 || pd.address_handles != 0) return EBUSY;
  const auto done = locked.memory().deallocate_pd(pd.id);
  if (!done) return errno_of(done.error());
  // Not always ours: another context, of the same device, may have imported it.
  pd.context->device_->engine().lock().assert_held();
  pd.context->pds_.erase(&pd);
  return 0;
}

Outcome<std::unique_ptr<Mr>> Context::reg_mr(Pd& pd, void* start, uint64_t length, uint64_t iova,
                                             uint32_t access) {
  const bool on_demand = (access & memory::kOnDemand) != 0;
  if (!on_demand) {
    const bool writable = (access & memory::kLocalWrite) != 0;
    if (const int error = populate(start, length, writable); error != 0) return fail(error);
  }
  auto* const base = static_cast<uint8_t*>(start);
  const Engine::Quiet locked(device_->engine());
  const auto keys = locked.memory().register_region(
      pd.id, {.base = base,
              .length = length,
              .iova = iova,
              .access = access,
              .accessor = on_demand ? &device_->on_demand_ : nullptr});
  if (!keys) return fail(errno_of(keys.error()));
  return std::make_unique<Mr>(Mr{&pd, base, length, iova, access, keys->lkey, keys->rkey});
}

int Context::dereg_mr(Mr& mr) {
  const Engine::Locked locked(device_->engine());
  const auto done = locked.memory().deregister_region(mr.lkey);
  return done ? 0 : errno_of(done.error());
}

Outcome<RKey> Context::alloc_mw(Pd& pd, memory::WindowType type) {
  const Engine::Quiet locked(device_->engine());
  const auto rkey = locked.memory().allocate_window(pd.id, type);
  if (!rkey) return fail(errno_of(rkey.error()));
  return *rkey;
}

int Context::dealloc_mw(RKey window) {
  const Engine::Locked locked(device_->engine());
  const auto done = locked.memory().deallocate_window(window);
  return done ? 0 : errno_of(done.error());
}

Outcome<memory::RegionKeys> Context::create_key(Pd& pd, const memory::KeySpec& spec) {
  const Engine::Quiet locked(device_->engine());
  const auto keys = locked.memory().create_key(pd.id, spec);
  if (!keys) return fail(errno_of(keys.error()));
  return *keys;
}

int Context::destroy_key(LKey key) {
  const Engine::Locked locked(device_->engine());
  const auto done = locked.memory().destroy_key(key);
  return done ? 0 : errno_of(done.error());
}

int Context::configure_key(Pd& pd, LKey key, const memory::KeyConfig& config) {
  const Engine::Locked locked(device_->engine());
  return locked.memory().configure_key(key, pd.id, config) == memory::Fault::kNone ? 0 : EINVAL;
}

Outcome<std::optional<memory::SignatureError>> Context::take_signature_error(LKey key) {
  const Engine::Quiet locked(device_->engine());
  auto error = locked.memory().take_signature_error(key);
  if (!error) return fail(errno_of(error.error()));
  return *error;
}

int Context::rereg_mr(Mr& mr, const RegionChange& change) {
  const uint32_t access = change.access.value_or(mr.access);
  uint8_t* const base = change.place ? static_cast<uint8_t*>(change.place->start) : mr.base;
  const uint64_t length = change.place ? change.place->length : mr.length;
  const uint64_t iova = change.place ? change.place->iova : mr.iova;
  const bool on_demand = (access & memory::kOnDemand) != 0;
  if (!on_demand) {
    const bool writable = (access & memory::kLocalWrite) != 0;
    if (const int error = populate(base, length, writable); error != 0) return error;
  }
  Pd& pd = change.pd != nullptr ? *change.pd : *mr.pd;
  const Engine::Locked locked(device_->engine());
  const auto keys =
      locked.memory().reregister_region(mr.lkey, pd.id,
                                        {.base = base,
                                         .length = length,
                                         .iova = iova,
                                         .access = access,
                                         .accessor = on_demand ? &device_->on_demand_ : nullptr});
  if (!keys) return errno_of(keys.error());
  mr = {&pd, base, length, iova, access, keys->lkey, keys->rkey};
  return 0;
}

Outcome<std::unique_ptr<Mr>> Context::null_mr(Pd& pd) {
  constexpr uint32_t kAccess = memory::kLocalWrite | memory::kOnDemand | memory::kAnyRemote;
  constexpr uint64_t kAllAddresses = UINT64_MAX;
  const Engine::Quiet locked(device_->engine());
  const auto keys = locked.memory().register_region(pd.id, {.base = nullptr,
                                                            .length = kAllAddresses,
                                                            .iova = 0,
                                                            .access = kAccess,
                                                            .accessor = &device_->nothing_});
  if (!keys) return fail(errno_of(keys.error()));
  return std::make_unique<Mr>(Mr{&pd, nullptr, kAllAddresses, 0, kAccess, keys->lkey, keys->rkey});
}

int Context::prefetch(Pd& pd, std::span<const memory::Sge> list, const Prefetch& how) {
  for (const memory::Sge& sge : list) {
    memory::RegionSpec spec;
    {
      const Engine::Quiet locked(device_->engine());
      const auto region = locked.memory().query_region(sge.lkey);
      if (!region) return ENOENT;
      if (region->pd != pd.id) return EPERM;
      spec = region->spec;
    }
    if ((spec.access & memory::kOnDemand) == 0) return EINVAL;
    if (how.writable && (spec.access & memory::kLocalWrite) == 0) return EPERM;
    const uint64_t offset = sge.addr - spec.iova;
    if (offset > spec.length || sge.length > spec.length - offset) return EFAULT;
    // A null region has no pages; pages that are present are so for the device as well.
    if (spec.accessor != &device_->on_demand_ || !how.fault) continue;
    const auto* const at =
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the region may begin at address 0
        reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(spec.base) + offset);
    const int error = populate(at, sge.length, how.writable);
    if (error != 0 && how.wait) return error;
  }
  return 0;
}

}  // namespace verbena::device
