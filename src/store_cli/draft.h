// SPDX-License-Identifier: Apache-2.0
// An object that is being written and that nobody sees until it is whole. It is a nameless one
// under a reserved id; one transaction then gives its content to the object it is for. A process
// that dies before leaves the old object as it was, and a draft: store/drafts.h says who removes
// it.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/objects.h"

namespace verbena::store_cli {

class Draft {
 public:
  [[nodiscard]] static store::Result<Draft> empty(store::Objects& store);
  // As this clone would be, whatever it says about where to.
  [[nodiscard]] static store::Result<Draft> clone(store::Objects& store,
                                                  store::CloneRequest request);
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  ~Draft();

  [[nodiscard]] store::ObjectId id() const { return id_; }
  // The store cannot be reached: the draft stays, for store::remove_drafts().
  void leave() { store_ = nullptr; }
  // The object has this content now, whatever it had, and the draft is gone. One that is not there
  // is made, with this name.
  [[nodiscard]] store::Result<void> become(store::ObjectId object, bool exists,
                                           std::string_view name);

 private:
  Draft(store::Objects& store, store::ObjectId id) : store_(&store), id_(id) {}
  store::Objects* store_;
  store::ObjectId id_;
};

// An id for an object that was given a name alone.
[[nodiscard]] store::ObjectId random_id();

}  // namespace verbena::store_cli
