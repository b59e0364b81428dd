// SPDX-License-Identifier: Apache-2.0
// An object that is being written and that nobody sees until it is whole. It is a nameless one
// under a reserved id; one transaction then gives its content to the object it is for. A process
// that dies before leaves the old object as it was, and a draft, which the next that writes here
// removes.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/store.h"

namespace verbena::store_cli {

class Draft {
 public:
  [[nodiscard]] static store::Result<Draft> empty(store::Store& store);
  // As this clone would be, whatever it says about where to.
  [[nodiscard]] static store::Result<Draft> clone(store::Store& store, store::CloneRequest request);
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  ~Draft();

  [[nodiscard]] store::ObjectId id() const { return id_; }
  // The object has this content now, whatever it had, and the draft is gone. One that is not there
  // is made, with this name.
  [[nodiscard]] store::Result<void> become(store::ObjectId object, bool exists,
                                           std::string_view name);

 private:
  Draft(store::Store& store, store::ObjectId id) : store_(&store), id_(id) {}
  store::Store* store_;
  store::ObjectId id_;
};

// An id for an object that was given a name alone.
[[nodiscard]] store::ObjectId random_id();
// What killed processes left. How many.
[[nodiscard]] store::Result<uint64_t> remove_drafts(store::Store& store);

}  // namespace verbena::store_cli
