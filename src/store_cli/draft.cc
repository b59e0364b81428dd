// SPDX-License-Identifier: Apache-2.0
#include "store_cli/draft.h"

#include <random>
#include <utility>

#include "store/drafts.h"

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
    if (id != store::ObjectId{} && !store::is_draft(id)) return id;
  }
}

store::Result<Draft> Draft::empty(store::Objects& store) {
  const store::ObjectId id{store::kDraftHigh, random_bits()};
  if (const auto made = store.create_object(id); !made) return fail(made.error());
  return Draft(store, id);
}

store::Result<Draft> Draft::clone(store::Objects& store, store::CloneRequest request) {
  request.to = {store::kDraftHigh, random_bits()};
  request.to_name = {};
  request.allow_existing = false;
  if (const auto made = store.clone(request); !made) return fail(made.error());
  return Draft(store, request.to);
}

Draft::Draft(Draft&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), id_(other.id_) {}

Draft::~Draft() {
  // If that fails, store::remove_drafts() will.
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

}  // namespace verbena::store_cli
