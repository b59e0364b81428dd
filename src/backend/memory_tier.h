// SPDX-License-Identifier: Apache-2.0
// For tests: a tier in memory, with the rules of tier.h and nothing else. The model that others are
// compared with. For any number of threads; it must outlive its updates.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/part_ranges.h"
#include "backend/tier.h"
#include "base/mutex.h"
#include "store/crc_parts.h"
#include "store/record.h"

namespace verbena::backend {

class MemoryTier final : public Tier {
 public:
  [[nodiscard]] std::string describe() const override { return "memory"; }
  [[nodiscard]] Result<State> state(const Key& key) override {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(order_of(key));
    if (found == objects_.end()) return fail(error(Code::kNotFound, "no such object"));
    return found->second.state;
  }
  [[nodiscard]] Result<void> list(const Each& each) override {
    std::vector<Entry> entries;
    {
      const MutexLock lock(mutex_);
      for (const auto& [order, object] : objects_) entries.push_back({object.key, object.state});
    }
    for (Entry& entry : entries) {
      if (!each(std::move(entry))) break;
    }
    return {};
  }
  [[nodiscard]] Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                  std::span<PartToLoad> parts) override {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(order_of(key));
    if (found == objects_.end()) return fail(error(Code::kNotFound, "no such object"));
    const Object& object = found->second;
    if (object.state.version != version) return fail(error(Code::kConflict, "another version"));
    const uint64_t all = count_of(object.state.size);
    if (first > all || parts.size() > all - first) {
      return fail(error(Code::kInvalid, "parts after the end of the object"));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto part = object.parts.find(first + i);
      std::memset(parts[i].bytes, 0, kPartBytes);
      if (part != object.parts.end()) {
        std::memcpy(parts[i].bytes, part->second.bytes.data(), kPartBytes);
      }
      parts[i].crc = store::crc_of({parts[i].bytes, kPartBytes});
      if (part == object.parts.end() || part->second.crc == parts[i].crc) continue;
      Error damaged = error(Code::kDamaged, "the CRC of a part is wrong");
      damaged.damage.object = key.id;
      damaged.damage.offset = (first + i) * kPartBytes;
      damaged.damage.field = "data CRC";
      return fail(std::move(damaged));
    }
    return {};
  }
  [[nodiscard]] Result<std::unique_ptr<Update>> update(const Key& key,
                                                       const NewState& wanted) override {
    if (!store::good_name(key.name) || wanted.state.version == 0 ||
        wanted.state.version == wanted.base ||
        wanted.state.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return fail(error(Code::kInvalid, "invalid name or state"));
    }
    const MutexLock lock(mutex_);
    if (!is_base(key, wanted.base)) return fail(error(Code::kConflict, "another version"));
    auto update = std::make_unique<NewVersion>(*this, key, wanted);
    if (wanted.source) {
      if (!is_base(wanted.source->key, wanted.source->version)) {
        return fail(error(Code::kConflict, "another version of the source"));
      }
      update->object_.parts = objects_.at(order_of(wanted.source->key)).parts;
    } else if (wanted.base) {
      update->object_.parts = objects_.at(order_of(key)).parts;
    }
    update->object_.cut();
    return update;
  }
  [[nodiscard]] Result<void> remove(const Key& key, uint64_t version) override {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(order_of(key));
    if (found == objects_.end()) return {};
    if (found->second.state.version != version) {
      return fail(error(Code::kConflict, "another version"));
    }
    objects_.erase(found);
    return {};
  }

 private:
  struct Part {
    std::vector<uint8_t> bytes;
    uint32_t crc = 0;
  };
  struct Object {
    Key key;
    State state;
    std::map<uint64_t, Part> parts;  // those that are no holes

    // To its size.
    void cut() {
      parts.erase(parts.lower_bound(count_of(state.size)), parts.end());
      const auto last = parts.find(state.size / kPartBytes);
      if (last == parts.end()) return;
      Part& part = last->second;
      const bool good = store::crc_of(part.bytes) == part.crc;
      const size_t kept = state.size % kPartBytes;
      std::fill(part.bytes.begin() + static_cast<ptrdiff_t>(kept), part.bytes.end(), uint8_t{0});
      if (good) part.crc = store::crc_of(part.bytes);
    }
  };
  // Objects with a name by that, others by their id.
  using Order = std::pair<std::string, ObjectId>;

  class NewVersion final : public Update {
   public:
    NewVersion(MemoryTier& tier, const Key& key, const NewState& wanted)
        : object_{key, wanted.state, {}}, tier_(tier), base_(wanted.base) {}
    [[nodiscard]] Result<void> put(uint64_t first, std::span<const PartToPut> parts) override {
      const MutexLock lock(tier_.mutex_);
      if (auto claimed = claim(first, parts.size()); !claimed) return claimed;
      for (size_t i = 0; i < parts.size(); ++i) {
        const uint8_t* const bytes = parts[i].bytes;
        object_.parts[first + i] = {std::vector<uint8_t>(bytes, bytes + kPartBytes), parts[i].crc};
      }
      return {};
    }
    [[nodiscard]] Result<void> hole(uint64_t first, uint64_t count) override {
      const MutexLock lock(tier_.mutex_);
      if (auto claimed = claim(first, count); !claimed) return claimed;
      object_.parts.erase(object_.parts.lower_bound(first),
                          object_.parts.lower_bound(first + count));
      return {};
    }
    [[nodiscard]] Result<void> commit() override {
      const MutexLock lock(tier_.mutex_);
      if (failed_) return fail(error(Code::kInvalid, "the update has failed, or is committed"));
      failed_ = true;
      if (!tier_.is_base(object_.key, base_)) {
        return fail(error(Code::kConflict, "another version"));
      }
      tier_.objects_[order_of(object_.key)] = std::move(object_);
      return {};
    }

    Object object_;

   private:
    // Under the tier's mutex, which the analysis knows by another name.
    [[nodiscard]] Result<void> claim(uint64_t first, uint64_t count) {
      const uint64_t all = count_of(object_.state.size);
      if (!failed_ && first <= all && count <= all - first && written_.add(first, first + count)) {
        return {};
      }
      failed_ = true;
      return fail(error(Code::kInvalid, "parts after the end, or written twice"));
    }

    MemoryTier& tier_;
    const std::optional<uint64_t> base_;
    PartRanges written_;
    bool failed_ = false;
  };

  [[nodiscard]] static Error error(Code code, const char* what) { return {code, what, {}}; }
  [[nodiscard]] static uint64_t count_of(uint64_t size) {
    return size / kPartBytes + (size % kPartBytes != 0 ? 1 : 0);
  }
  [[nodiscard]] static Order order_of(const Key& key) {
    return {key.name, key.name.empty() ? key.id : ObjectId{}};
  }
  [[nodiscard]] bool is_base(const Key& key, std::optional<uint64_t> base) const
      VERBENA_REQUIRES(mutex_) {
    const auto found = objects_.find(order_of(key));
    if (found == objects_.end()) return !base;
    return base == found->second.state.version;
  }

  Mutex mutex_;
  std::map<Order, Object> objects_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::backend
