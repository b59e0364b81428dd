// SPDX-License-Identifier: Apache-2.0
// Indirect keys: their life (picture in indirect_key.h).
#include <algorithm>
#include <array>

#include "memory/domain.h"
#include "memory/tables.h"

namespace verbena::memory {

Entry* Domain::Tables::find_indirect(uint32_t key) const {
  Entry* const entry = keys.find(key);
  const bool is = entry != nullptr && entry->kind == Kind::kIndirect &&
                  (entry->lkey == key || entry->rkey == key);
  return is ? entry : nullptr;
}

Fault Domain::Tables::invalidate(Entry& key, PdId pd) {
  if (!key.usable) return Fault::kWrongState;
  if (key.pd != pd) return Fault::kWrongPd;
  indirect.at(&key)->clear();
  key.usable = false;
  key.access = 0;
  key.start = 0;
  key.layout = Layout();
  return Fault::kNone;
}

Result<RegionKeys, Error> Domain::create_key(PdId pd, const KeySpec& spec) {
  if (!tables_->has_pd(pd)) return fail(Error::kNoSuchPd);
  if (tables_->indirect.size() >= tables_->options.limits.max_indirect_keys) {
    return fail(Error::kTooMany);
  }
  auto key = std::make_unique<IndirectKey>(tables_->share, pd, spec);
  Entry& entry = tables_->keys.create();
  entry.kind = Kind::kIndirect;
  entry.pd = pd;
  entry.lkey = tables_->keys.add_key(entry);
  entry.rkey = tables_->options.strict_keys ? tables_->keys.add_key(entry) : entry.lkey;
  tables_->indirect.emplace(&entry, std::move(key));
  tables_->join_pd(pd);
  return RegionKeys{.lkey = LKey{entry.lkey}, .rkey = RKey{entry.rkey}};
}

Result<void, Error> Domain::destroy_key(LKey lkey) {
  Entry* const entry = tables_->find_indirect(lkey.value);
  if (entry == nullptr) return fail(Error::kNoSuchKey);
  tables_->leave_pd(entry->pd);
  tables_->keys.remove_keys(*entry);
  tables_->indirect.erase(entry);
  tables_->keys.destroy(*entry);
  return {};
}

Fault Domain::configure_key(LKey lkey, PdId pd, const KeyConfig& config) {
  Entry* const entry = tables_->find_indirect(lkey.value);
  if (entry == nullptr) return Fault::kNoSuchKey;
  if (entry->pd != pd) return Fault::kWrongPd;
  IndirectKey& key = *tables_->indirect.at(entry);
  if (check_config(key.spec(), config) != ConfigError::kNone) return Fault::kOutOfBounds;
  if (config.access) entry->access = *config.access;
  if (config.start) entry->start = *config.start;
  key.configure(config);
  entry->layout = Layout(nullptr, key.length(), &key);
  entry->usable = entry->usable || config.has_layout;
  return Fault::kNone;
}

bool Domain::may_lead_to(LKey from, uint32_t key) const {
  const Entry* const target = tables_->find_indirect(key);
  const Entry* const entry = tables_->find_indirect(from.value);
  if (target == nullptr || entry == nullptr) return false;
  return entry == target || tables_->indirect.at(entry)->lies_over_keys();
}

Result<std::optional<SignatureError>, Error> Domain::take_signature_error(LKey lkey) {
  Entry* const entry = tables_->find_indirect(lkey.value);
  if (entry == nullptr) return fail(Error::kNoSuchKey);
  return tables_->indirect.at(entry)->take_error();
}

uint64_t Domain::signature_errors() const { return tables_->share.signature_errors; }

Fault Domain::copy(PdId pd, const Sge& to, const Sge& from) const {
  Fault fault = check_local(pd, {&to, 1}, true);
  if (fault == Fault::kNone) fault = check_local(pd, {&from, 1}, false);
  if (fault != Fault::kNone) return fault;
  const uint64_t length = std::min(to.length, from.length);
  std::array<uint8_t, 4096> room;
  for (uint64_t done = 0; done < length;) {
    const auto take = static_cast<uint32_t>(std::min<uint64_t>(length - done, room.size()));
    Pieces pieces(room);
    fault = gather(pd, {&from, 1}, done, take, pieces);
    if (fault != Fault::kNone) return fault;
    for (const auto piece : pieces.list()) {
      fault = scatter(pd, {&to, 1}, done, piece, false);
      if (fault != Fault::kNone) return fault;
      done += piece.size();
    }
  }
  return Fault::kNone;
}

}  // namespace verbena::memory
