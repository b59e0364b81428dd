// SPDX-License-Identifier: Apache-2.0
// Protection domains, and what regions and windows have in common.
#include "memory/domain.h"

#include "memory/tables.h"

namespace verbena::memory {

const char* to_string(Error error) {
  switch (error) {
    case Error::kInvalid:   return "invalid arguments";
    case Error::kNoSuchPd:  return "no such protection domain";
    case Error::kNoSuchKey: return "no such key";
    case Error::kBusy:      return "in use";
    case Error::kTooMany:   return "limit reached";
  }
  return "unknown error";
}

Entry* Domain::Tables::find_region(LKey lkey) const {
  Entry* const entry = keys.find(lkey.value);
  return entry != nullptr && entry->kind == Kind::kRegion && entry->lkey == lkey.value ? entry
                                                                                       : nullptr;
}

Entry* Domain::Tables::find_window(RKey rkey) const {
  Entry* const entry = keys.find(rkey.value);
  const bool is_window =
      entry != nullptr && (entry->kind == Kind::kWindow1 || entry->kind == Kind::kWindow2);
  return is_window ? entry : nullptr;
}

Domain::Domain(RandomSource& random, Options options)
    : tables_(std::make_unique<Tables>(random, options)) {}

Domain::~Domain() = default;

Result<PdId, Error> Domain::allocate_pd() {
  if (tables_->pd_members.size() >= tables_->options.limits.max_pds) return fail(Error::kTooMany);
  // Not secret, and never sent. Numbers in turn: one that was given back does not soon return.
  do {
    ++tables_->last_pd;
  } while (tables_->last_pd == 0 || tables_->has_pd(PdId{tables_->last_pd}));
  tables_->pd_members.emplace(tables_->last_pd, 0);
  return PdId{tables_->last_pd};
}

Result<void, Error> Domain::deallocate_pd(PdId pd) {
  const auto found = tables_->pd_members.find(pd.value);
  if (found == tables_->pd_members.end()) return fail(Error::kNoSuchPd);
  if (found->second > 0) return fail(Error::kBusy);
  tables_->pd_members.erase(found);
  return {};
}

void Domain::abandon_pds(const std::unordered_set<uint32_t>& pds) {
  const auto all = [&](KeyTable::Of what) { return tables_->keys.keys_of(pds, what); };
  for (const uint32_t key : all(KeyTable::Of::kWindows)) (void)deallocate_window(RKey(key));
  for (const uint32_t key : all(KeyTable::Of::kIndirect)) (void)destroy_key(LKey(key));
  for (const uint32_t key : all(KeyTable::Of::kRegions)) (void)deregister_region(LKey(key));
  for (const uint32_t pd : pds) (void)deallocate_pd(PdId(pd));
}

Domain::Usage Domain::usage() const {
  return {.pds = static_cast<uint32_t>(tables_->pd_members.size()),
          .regions = tables_->regions,
          .windows = tables_->windows,
          .indirect_keys = static_cast<uint32_t>(tables_->indirect.size())};
}

}  // namespace verbena::memory
