// SPDX-License-Identifier: Apache-2.0
// Objects that are gone here and still behind: each is an object of the store itself, nameless and
// under a reserved id, so that a crash forgets none. It is written before the object goes, and
// removed when there is nothing behind any more. One whose object did not go after all means
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/tier.h"
#include "base/mutex.h"
#include "store/store.h"

namespace verbena::cache {

struct Grave {
  ObjectId id;  // of the object in the store that it is
  backend::Key key;
  store::Behind behind;
};

class Graves {
 public:
  Graves(store::Store& store, store::RandomNumbers random)
      : store_(store), random_(std::move(random)) {}
  // Those that are there.
  [[nodiscard]] store::Result<void> open();
  [[nodiscard]] store::Result<void> add(const backend::Key& key, const store::Behind& behind);
  [[nodiscard]] std::optional<Grave> find(const backend::Key& key) const;
  [[nodiscard]] std::vector<Grave> all() const;
  [[nodiscard]] store::Result<void> remove(const Grave& grave);

 private:
  using Order = std::pair<std::string, ObjectId>;
  [[nodiscard]] static Order order_of(const backend::Key& key);
  [[nodiscard]] store::Result<void> open_one(ObjectId id);

  store::Store& store_;
  store::RandomNumbers random_;
  mutable Mutex mutex_;
  std::multimap<Order, Grave> graves_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::cache
