// SPDX-License-Identifier: Apache-2.0
#include "store_cli/draft.h"

#include <random>
#include <utility>

#include "store_cli/object_name.h"

namespace verbena::store_cli {
namespace {

[[nodiscard]] uint64_t random_bits() {
  std::random_device device;  // the kernel's
  return uint64_t{device()} << 32 | device();
}

}  // namespace

store::ObjectId random_id() {
  for (;;) {
    const store::ObjectId id{random_bits(), random_bits()};
    if (id != store::ObjectId{} && id.high != kDraftHigh) return id;
  }
}

store::Result<Draft> Draft::empty(store::Store& store) {
  const store::ObjectId id{kDraftHigh, random_bits()};
  if (const auto made = store.create_object(id); !made) return fail(made.error());
  return Draft(store, id);
}

store::Result<Draft> Draft::clone(store::Store& store, store::CloneRequest request) {
  request.to = {kDraftHigh, random_bits()};
  request.to_name = {};
  request.allow_existing = false;
  if (const auto made = store.clone(request); !made) return fail(made.error());
  return Draft(store, request.to);
}

Draft::Draft(Draft&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), id_(other.id_) {}

Draft::~Draft() {
  // If that fails, remove_drafts() will.
  if (store_ != nullptr) static_cast<void>(store_->remove(id_));
}

store::Result<void> Draft::become(store::ObjectId object, bool exists, std::string_view name) {
  if (!exists) {
    const auto made = store_->clone({.from = id_, .to = object, .to_name = name});
    if (!made) return made;
    return std::exchange(store_, nullptr)->remove(id_);
  }
  const auto replaced = store_->replace(object, id_);
  if (replaced) store_ = nullptr;
  return replaced;
}

store::Result<uint64_t> remove_drafts(store::Store& store) {
  constexpr size_t kAtOnce = 100;
  uint64_t removed = 0;
  for (;;) {
    // Nameless ones are first in the list, in order of their ids.
    const auto found = store.list(store::Cursor{"", {kDraftHigh, 0}}, kAtOnce);
    if (!found) return fail(found.error());
    const uint64_t before = removed;
    for (const store::ObjectInfo& object : *found) {
      if (object.id.high != kDraftHigh) break;
      if (const auto gone = store.remove(object.id); !gone) return fail(gone.error());
      ++removed;
    }
    if (removed - before < kAtOnce) return removed;
  }
}

}  // namespace verbena::store_cli
