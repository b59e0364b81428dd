// SPDX-License-Identifier: Apache-2.0
#include "store/catalog.h"

#include <algorithm>

namespace verbena::store {

ObjectRef Catalog::find(ObjectId id) const {
  const ReadLock lock(lock_);
  return ObjectRef(by_id(id));
}

Object* Catalog::by_id(ObjectId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Object* Catalog::by_name(std::string_view name) const {
  if (name.empty()) return nullptr;
  const auto found = ordered_.lower_bound(KeyView{name, ObjectId{}});
  return found == ordered_.end() || found->first.first != name ? nullptr : found->second.get();
}

std::optional<ObjectId> Catalog::named(std::string_view name) const {
  const ReadLock lock(lock_);
  const Object* const object = by_name(name);
  return object == nullptr ? std::nullopt : std::optional(object->id);
}

std::vector<ObjectRef> Catalog::page(const std::optional<Cursor>& after, size_t limit,
                                     std::optional<Cursor>* last) const {
  const ReadLock lock(lock_);
  std::vector<ObjectRef> objects;
  objects.reserve(std::min(limit, ordered_.size()));
  auto next = after ? ordered_.upper_bound(KeyView{after->name, after->id}) : ordered_.begin();
  for (; next != ordered_.end() && objects.size() < limit; ++next) {
    objects.push_back(next->second.share());
  }
  if (last != nullptr && !objects.empty()) {
    *last = Cursor{std::prev(next)->first.first, std::prev(next)->first.second};
  }
  return objects;
}

std::string Catalog::name_of(const Object& object) const {
  const ReadLock lock(lock_);
  return object.name;
}

uint64_t Catalog::bytes() const {
  // An object, its two entries, and what the heap adds to each.
  constexpr uint64_t kObject = sizeof(Object) + 16 + sizeof(Ordered::value_type) + 56 + 48;
  uint64_t sum = 0;
  // In pages: objects' locks come before this one's.
  std::optional<Cursor> after;
  for (;;) {
    const auto objects = page(after, 1024, &after);
    for (const ObjectRef& object : objects) {
      const ReadLock lock(object->lock);
      sum += kObject + object->table.bytes();
    }
    if (objects.size() < 1024) return sum;
  }
}

void Catalog::insert(const ObjectRef& object) {
  const auto at = ordered_.try_emplace(Key{object->name, object->id}, object.share()).first;
  try {
    by_id_.emplace(object->id, object.get());
  } catch (...) {
    ordered_.erase(at);
    throw;
  }
}

void Catalog::erase(Object& object) noexcept {
  by_id_.erase(object.id);
  ordered_.erase(ordered_.find(KeyView{object.name, object.id}));
}

void Catalog::rename(Object& object, std::string name, std::string again) noexcept {
  auto node = ordered_.extract(ordered_.find(KeyView{object.name, object.id}));
  node.key().first.swap(name);
  object.name.swap(again);
  ordered_.insert(std::move(node));
}

}  // namespace verbena::store
