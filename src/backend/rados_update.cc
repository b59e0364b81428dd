// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "backend/object_path.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

[[nodiscard]] Error invalid_update(const char* what) { return {Code::kInvalid, what, {}}; }

[[nodiscard]] uint64_t part_total(uint64_t size) {
  return size / kPartBytes + (size % kPartBytes != 0 ? 1 : 0);
}

}  // namespace

RadosUpdate::~RadosUpdate() {
  const MutexLock lock(mutex_);
  flight_.wait_all();
  if (!keep_stripes_) tier_.remove_stripes(digest_, new_stripes_, {});
}

Result<void> RadosUpdate::begin() {
  const State& state = wanted_.state;
  if (state.version == 0 || state.version == wanted_.base) {
    return fail(invalid_update("a new version needs a number of its own"));
  }
  if (state.size > kMaxStripes * kStripeBytes) {
    return fail(Error{Code::kUnsupported, "a pool holds objects of up to 64 GiB", {}});
  }
  auto base = find_version(key_, wanted_.base);
  if (!base) return fail(base.error());
  digest_ = digest_of(key_);
  base_value_ = std::move(base->value);
  base_ = std::move(base->head);
  from_digest_ = digest_;
  if (wanted_.source) {
    auto source = find_version(wanted_.source->key, wanted_.source->version);
    if (!source) return fail(source.error());
    from_ = std::move(source->head);
    from_digest_ = digest_of(wanted_.source->key);
  } else {
    from_ = base_;
  }
  const MutexLock lock(mutex_);
  stripes_ = from_.stripes;
  stripes_.resize(stripes_of(state.size));
  new_stripes_.resize(stripes_.size());
  // An object that becomes shorter: the last stripe of those that stay is cut.
  if (state.size < from_.state.size && state.size % kStripeBytes != 0 && stripes_.back() != 0) {
    drafts_.try_emplace(stripes_.size() - 1);
  }
  if (!wanted_.source) return {};
  // Stripes of another object are copied, unless they are put as a whole.
  for (uint64_t number = 0; number < stripes_.size(); ++number) {
    if (std::exchange(stripes_[number], 0) != 0) drafts_.try_emplace(number);
  }
  return {};
}

Result<FoundHead> RadosUpdate::find_version(const Key& key, std::optional<uint64_t> version) {
  auto found = tier_.find(key);
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (found.has_value() != version.has_value() ||
      (found && found->head.state.version != *version)) {
    return fail(Error{Code::kConflict,
                      fmt::format("pool {}: it is not the version that the update begins from",
                                  tier_.pool_->name()),
                      {}});
  }
  if (!found) return FoundHead{};
  return found;
}

uint64_t RadosUpdate::parts_in_stripe(uint64_t number) const {
  return std::min(kStripeParts, part_total(wanted_.state.size) - number * kStripeParts);
}

Result<void> RadosUpdate::noted(Error error) {
  if (!error_) error_ = error;
  return fail(std::move(error));
}

Result<void> RadosUpdate::claim(uint64_t first, uint64_t count) {
  const uint64_t all = part_total(wanted_.state.size);
  if (error_) return fail(*error_);
  if (first > all || count > all - first) {
    return noted(invalid_update("parts after the object's end"));
  }
  if (!written_.add(first, first + count)) {
    return noted(invalid_update("a part is written twice"));
  }
  return {};
}

Result<void> RadosUpdate::put(uint64_t first, std::span<const PartToPut> parts) {
  const MutexLock lock(mutex_);
  if (auto claimed = claim(first, parts.size()); !claimed) return claimed;
  for (size_t i = 0; i < parts.size();) {
    const uint64_t number = (first + i) / kStripeParts;
    const uint64_t slot = (first + i) % kStripeParts;
    const size_t n = std::min<size_t>(parts.size() - i, parts_in_stripe(number) - slot);
    const auto some = parts.subspan(i, n);
    i += n;
    if (n == parts_in_stripe(number)) {  // a whole one needs no draft
      drafts_.erase(number);
      write_stripe(number, some);
      continue;
    }
    Draft& draft = drafts_[number];
    for (size_t at = 0; at < n; ++at) {
      Draft::Part& part = draft.parts[slot + at];
      part.bytes.assign(some[at].bytes, some[at].bytes + kPartBytes);
      part.crc = some[at].crc;
    }
    write_if_complete(number);
  }
  if (error_) return fail(*error_);
  return {};
}

Result<void> RadosUpdate::hole(uint64_t first, uint64_t count) {
  const MutexLock lock(mutex_);
  if (auto claimed = claim(first, count); !claimed) return claimed;
  for (uint64_t at = first; at < first + count;) {
    const uint64_t number = at / kStripeParts;
    const uint64_t slot = at % kStripeParts;
    const uint64_t n = std::min(first + count - at, parts_in_stripe(number) - slot);
    at += n;
    if (n == parts_in_stripe(number)) {
      stripes_[number] = 0;
      drafts_.erase(number);
      continue;
    }
    Draft& draft = drafts_[number];
    for (uint64_t i = 0; i < n; ++i) draft.parts[slot + i] = {};
    write_if_complete(number);
  }
  if (error_) return fail(*error_);
  return {};
}

void RadosUpdate::write_if_complete(uint64_t number) {
  const auto draft = drafts_.find(number);
  if (draft == drafts_.end() || draft->second.parts.size() != parts_in_stripe(number)) return;
  write_draft(number, draft->second);
  drafts_.erase(draft);
}

void RadosUpdate::write_draft(uint64_t number, const Draft& draft) {
  std::vector<PartToPut> parts;
  for (const auto& [slot, part] : draft.parts) {
    parts.push_back({part.bytes.empty() ? nullptr : part.bytes.data(), part.crc});
  }
  write_stripe(number, parts);
}

void RadosUpdate::write_stripe(uint64_t number, std::span<const PartToPut> parts) {
  StripeTable table;
  table.crcs.fill(store::crc_of_zeros(kPartBytes));
  for (size_t slot = 0; slot < parts.size(); ++slot) {
    if (parts[slot].bytes == nullptr) continue;
    table.parts = static_cast<uint32_t>(slot + 1);
    table.crcs[slot] = parts[slot].crc;
  }
  stripes_[number] = 0;
  if (table.parts == 0) return;  // nothing but holes
  StripeMemory::Piece memory = tier_.memory_.take();
  const std::span bytes(memory.data(), kStripeDataAt + table.parts * size_t{kPartBytes});
  std::memset(bytes.data() + kStripeTableBytes, 0, kStripeDataAt - kStripeTableBytes);
  for (size_t slot = 0; slot < table.parts; ++slot) {
    uint8_t* const to = bytes.data() + kStripeDataAt + slot * kPartBytes;
    if (parts[slot].bytes == nullptr) {
      std::memset(to, 0, kPartBytes);
    } else {
      std::memcpy(to, parts[slot].bytes, kPartBytes);
    }
  }
  const StripeName name{digest_, wanted_.state.version, number};
  encode(table, name, bytes.first<kStripeTableBytes>());
  const RadosLibrary& api = tier_.pool_->api();
  WriteOperation op(*tier_.pool_);
  api.write_op_write_full(op.get(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string text = text_of(name);
  stripes_[number] = new_stripes_[number] = wanted_.state.version;
  flight_.start(
      [&](rados_completion_t completion) {
        return api.aio_write_op_operate(op.get(), tier_.pool_->io(), completion, text.c_str(),
                                        nullptr, 0);
      },
      [this, text](int result) {
        mutex_.assert_held();
        if (result < 0)
          static_cast<void>(noted(tier_.pool_->failed("cannot write it", text, result)));
      });
}

// The CRC of a part that stays is kept as it is, so that damage stays damage.
Result<void> RadosUpdate::complete(uint64_t number, Draft& draft) {
  const uint64_t count = parts_in_stripe(number);
  StripeRead read;
  read.name = {from_digest_, number < from_.stripes.size() ? from_.stripes[number] : 0, number};
  read.count = count;
  StripeTable table;
  if (read.name.version != 0) {
    RadosFlight flight(*tier_.pool_, 1);
    tier_.begin_read(flight, read, [] {});
    flight.wait_all();
    auto checked = tier_.check_read(from_.key, read);
    if (!checked && checked.error().code == Code::kNotFound) {
      return fail(Error{Code::kConflict, checked.error().what, {}});
    }
    if (!checked) return fail(checked.error());
    table = *checked;
  }
  for (uint64_t slot = 0; slot < count; ++slot) {
    const auto [part, kept] = draft.parts.try_emplace(slot);
    if (!kept || slot >= table.parts) continue;
    const auto* const from = read.bytes.data() + slot * kPartBytes;
    part->second = {std::vector<uint8_t>(from, from + kPartBytes), table.crcs[slot]};
    if (auto done = cut(number, slot, part->second); !done) return done;
  }
  return {};
}

// The part with the new end, if the object becomes shorter.
Result<void> RadosUpdate::cut(uint64_t number, uint64_t slot, Draft::Part& part) const {
  const uint64_t offset = (number * kStripeParts + slot) * kPartBytes;
  const uint64_t size = wanted_.state.size;
  if (size >= from_.state.size || offset + kPartBytes <= size) return {};
  if (store::crc_of(part.bytes) != part.crc) {
    return fail(tier_.damaged(from_.key, offset, fmt::format("damaged at offset {}", offset)));
  }
  std::fill(part.bytes.begin() + static_cast<ptrdiff_t>(size - offset), part.bytes.end(),
            uint8_t{0});
  part.crc = store::crc_of(part.bytes);
  return {};
}

Result<void> RadosUpdate::commit() {
  const MutexLock lock(mutex_);
  if (error_) return fail(*error_);
  for (auto& [number, draft] : drafts_) {
    if (auto completed = complete(number, draft); !completed) return noted(completed.error());
    write_draft(number, draft);
    draft.parts.clear();
  }
  flight_.wait_all();
  if (error_) return fail(*error_);
  error_ = invalid_update("the update was committed before");
  const RadosHead head{.key = key_, .state = wanted_.state, .stripes = stripes_};
  auto switched = tier_.switch_head(digest_, base_value_, encode(head));
  if (!switched) {
    // Refused, or it cannot be told: then the stripes may be in use.
    const Code code = switched.error().code;
    keep_stripes_ = code != Code::kConflict && code != Code::kInUse;
    if (keep_stripes_) tier_.left_over_.store(true, std::memory_order_relaxed);
    return switched;
  }
  keep_stripes_ = true;
  tier_.remove_stripes(digest_, base_.stripes, stripes_);
  return {};
}

}  // namespace verbena::backend
