// SPDX-License-Identifier: Apache-2.0
// Regions: registering, deregistering, changing.
#include <limits>

#include "memory/domain.h"
#include "memory/tables.h"

namespace verbena::memory {
namespace {

constexpr uint32_t kRegionAccess = kLocalWrite | kAnyRemote | kMwBind | kZeroBased | kOnDemand;

// Whether [start, start + length) does not wrap.
bool fits(uint64_t start, uint64_t length) {
  return length == 0 || length - 1 <= std::numeric_limits<uint64_t>::max() - start;
}

Result<void, Error> validate(const RegionSpec& spec, const Limits& limits) {
  // Verbs take away the flags that are not ours (relaxed ordering, huge pages) before they call.
  if ((spec.access & ~kRegionAccess) != 0) return fail(Error::kInvalid);
  if ((spec.access & (kRemoteWrite | kRemoteAtomic)) != 0 && (spec.access & kLocalWrite) == 0) {
    return fail(Error::kInvalid);
  }
  const bool on_demand = (spec.access & kOnDemand) != 0;
  if (on_demand != (spec.accessor != nullptr)) return fail(Error::kInvalid);
  // Only an on-demand region may begin at address 0: it can be the whole address space.
  if (spec.base == nullptr && !on_demand) return fail(Error::kInvalid);
  if ((spec.access & kZeroBased) != 0 && spec.iova != 0) return fail(Error::kInvalid);
  if (!fits(spec.iova, spec.length)) return fail(Error::kInvalid);
  if (!fits(reinterpret_cast<uintptr_t>(spec.base), spec.length)) return fail(Error::kInvalid);
  const bool whole_address_space = on_demand && spec.base == nullptr;
  if (spec.length > limits.max_region_bytes && !whole_address_space) return fail(Error::kTooMany);
  return {};
}

bool same(const Entry& entry, const RegionSpec& spec) {
  return entry.access == spec.access && entry.start == spec.iova &&
         entry.layout.base() == spec.base && entry.layout.length() == spec.length &&
         entry.layout.backing() == spec.accessor;
}

// Fills an entry whose former keys, if any, are removed from the table already.
RegionKeys install(KeyTable& keys, Entry& entry, const RegionSpec& spec, bool strict) {
  const bool remote = (spec.access & kAnyRemote) != 0;
  const uint32_t old_lkey = entry.lkey;
  const uint32_t old_rkey = entry.rkey;
  entry.kind = Kind::kRegion;
  entry.usable = true;
  entry.access = spec.access;
  entry.start = spec.iova;
  entry.layout = Layout(spec.base, spec.length, spec.accessor);
  entry.lkey = keys.add_key(entry, old_lkey);
  entry.rkey = !remote ? 0 : strict ? keys.add_key(entry, old_rkey) : entry.lkey;
  return {.lkey = LKey{entry.lkey}, .rkey = RKey{entry.rkey}};
}

}  // namespace

Result<RegionKeys, Error> Domain::register_region(PdId pd, const RegionSpec& spec) {
  if (!tables_->has_pd(pd)) return fail(Error::kNoSuchPd);
  if (const auto valid = validate(spec, tables_->options.limits); !valid) {
    return fail(valid.error());
  }
  if (tables_->regions >= tables_->options.limits.max_regions) return fail(Error::kTooMany);
  Entry& entry = tables_->keys.create();
  entry.pd = pd;
  tables_->join_pd(pd);
  ++tables_->regions;
  return install(tables_->keys, entry, spec, tables_->options.strict_keys);
}

Result<void, Error> Domain::deregister_region(LKey lkey) {
  Entry* const entry = tables_->find_region(lkey);
  if (entry == nullptr) return fail(Error::kNoSuchKey);
  if (entry->bound_windows > 0) return fail(Error::kBusy);
  tables_->leave_pd(entry->pd);
  --tables_->regions;
  tables_->keys.remove_keys(*entry);
  tables_->keys.destroy(*entry);
  return {};
}

Result<RegionKeys, Error> Domain::reregister_region(LKey lkey, PdId pd, const RegionSpec& spec) {
  Entry* const entry = tables_->find_region(lkey);
  if (entry == nullptr) return fail(Error::kNoSuchKey);
  if (!tables_->has_pd(pd)) return fail(Error::kNoSuchPd);
  if (const auto valid = validate(spec, tables_->options.limits); !valid) {
    return fail(valid.error());
  }
  if (entry->bound_windows > 0) return fail(Error::kBusy);
  tables_->leave_pd(entry->pd);
  tables_->join_pd(pd);
  entry->pd = pd;
  if (same(*entry, spec)) return RegionKeys{.lkey = lkey, .rkey = RKey{entry->rkey}};
  tables_->keys.remove_keys(*entry);
  return install(tables_->keys, *entry, spec, tables_->options.strict_keys);
}

Result<QueryRegion, Error> Domain::query_region(LKey lkey) const {
  const Entry* const entry = tables_->find_region(lkey);
  if (entry == nullptr) return fail(Error::kNoSuchKey);
  return QueryRegion{.pd = entry->pd,
                     .spec = {.base = entry->layout.base(),
                              .length = entry->layout.length(),
                              .iova = entry->start,
                              .access = entry->access,
                              // A region is backed by nothing else.
                              .accessor = static_cast<Accessor*>(entry->layout.backing())},
                     .keys = {.lkey = lkey, .rkey = RKey{entry->rkey}},
                     .bound_windows = entry->bound_windows};
}

}  // namespace verbena::memory
