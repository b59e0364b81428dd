// SPDX-License-Identifier: Apache-2.0
// The index of objects by id and by name. Lock order: objects, catalog, log.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/object.h"
#include "store/store.h"

namespace verbena::store {

struct HashObjectId {
  size_t operator()(const ObjectId& id) const {
    return static_cast<size_t>((id.high * 0x9e3779b97f4a7c15) ^ (id.low * 0xc2b2ae3d27d4eb4f) ^
                               (id.low >> 29));
  }
};

class Catalog {
 public:
  [[nodiscard]] RwLock& lock() const VERBENA_RETURN_CAPABILITY(lock_) { return lock_; }

  [[nodiscard]] ObjectRef find(ObjectId id) const;
  [[nodiscard]] std::optional<ObjectId> named(std::string_view name) const;
  // References to up to `limit` objects behind `after`, in order.
  // *last, if not null: where the next page begins behind.
  [[nodiscard]] std::vector<ObjectRef> page(const std::optional<Cursor>& after, size_t limit,
                                            std::optional<Cursor>* last = nullptr) const;
  [[nodiscard]] std::string name_of(const Object& object) const;
  // Memory that objects and their tables take, roughly.
  [[nodiscard]] uint64_t bytes() const;

  // All of them, in order, with nothing else going on.
  template <typename Each>
  void for_each(Each each) const {
    lock_.assert_shared();
    for (const auto& entry : ordered_) each(*entry.second);
  }

  [[nodiscard]] size_t count() const VERBENA_REQUIRES_SHARED(lock_) { return ordered_.size(); }
  [[nodiscard]] Object* by_id(ObjectId id) const VERBENA_REQUIRES_SHARED(lock_);
  [[nodiscard]] Object* by_name(std::string_view name) const VERBENA_REQUIRES_SHARED(lock_);
  // All or nothing if memory runs out.
  void insert(const ObjectRef& object) VERBENA_REQUIRES(lock_);
  void erase(Object& object) noexcept VERBENA_REQUIRES(lock_);
  // Two copies of the new name, made before: it cannot fail.
  void rename(Object& object, std::string name, std::string again) noexcept VERBENA_REQUIRES(lock_);

 private:
  using Key = std::pair<std::string, ObjectId>;
  using KeyView = std::pair<std::string_view, ObjectId>;
  struct Less {
    using is_transparent = void;
    static KeyView view(const Key& key) { return {key.first, key.second}; }
    static KeyView view(const KeyView& key) { return key; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return view(a) < view(b);
    }
  };
  using Ordered = std::map<Key, ObjectRef, Less>;
  mutable RwLock lock_;
  std::unordered_map<ObjectId, Object*, HashObjectId> by_id_ VERBENA_GUARDED_BY(lock_);
  Ordered ordered_ VERBENA_GUARDED_BY(lock_);
};

}  // namespace verbena::store
