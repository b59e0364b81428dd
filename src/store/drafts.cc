// SPDX-License-Identifier: Apache-2.0
#include "store/drafts.h"

namespace verbena::store {

Result<uint64_t> remove_drafts(Objects& objects, uint64_t before_ns, const RemoveDraft& remove) {
  constexpr size_t kAtOnce = 100;
  uint64_t removed = 0;
  // Nameless ones are first in the list, in order of their ids.
  for (Cursor after{"", {kDraftHigh - 1, UINT64_MAX}};;) {
    const auto found = objects.list(after, kAtOnce);
    if (!found) return fail(found.error());
    for (const ObjectInfo& object : *found) {
      if (!is_draft(object.id) || !object.name.empty()) return removed;
      after.id = object.id;
      if (object.modified_ns >= before_ns) continue;
      const auto gone = remove ? remove(object.id) : objects.remove(object.id);
      // Its owner may just have finished. Or it is behind, too, and that is not there: whoever
      // opens the store with it removes both.
      if (!gone && gone.error().code != Code::kNotFound &&
          gone.error().code != Code::kUnsupported) {
        return fail(gone.error());
      }
      removed += gone ? 1 : 0;
    }
    if (found->size() < kAtOnce) return removed;
  }
}

}  // namespace verbena::store
