// SPDX-License-Identifier: Apache-2.0
// What is behind under a key (a name, or an id) that no object here has any more: each is an object
// of the store itself, nameless and under a reserved id, so that a crash forgets none. It is
// written before the object goes, is renamed or replaces another one, and removed when there is
// nothing behind any more. One whose object kept its key after all means nothing. As long as an
// object is behind under a key that is not its own, there is a grave of that key with the object as
// its user.
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
  ObjectId user;  // the object that went, or uses what is there until it is flushed
};

[[nodiscard]] inline bool same_key(const backend::Key& a, const backend::Key& b) {
  return a.name == b.name && (!a.name.empty() || a.id == b.id);
}

class Graves {
 public:
  Graves(store::Store& store, store::RandomNumbers random)
      : store_(store), random_(std::move(random)) {}
  // Those that are there.
  [[nodiscard]] store::Result<void> open();
  // Unless there is one that says the same.
  [[nodiscard]] store::Result<void> add(const backend::Key& key, const store::Behind& behind,
                                        ObjectId user);
  // All of one key.
  [[nodiscard]] std::vector<Grave> of(const backend::Key& key) const;
  [[nodiscard]] bool any(const backend::Key& key) const { return !of(key).empty(); }
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
