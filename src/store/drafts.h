// SPDX-License-Identifier: Apache-2.0
// Objects of puts that are under way. A put writes to a draft, a nameless object under a reserved
// id, and one step then gives its content to the object it is for. A process that dies before
// leaves its draft.
//
// Who removes those: of a store that one process has, everybody who opens it to write, at once, for
// nobody else can be putting. Of a store that a server has, the server alone: all of them when it
// starts, and while it runs those that nobody has written to for a day. A put that is slower than
// that fails and changes nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "store/objects.h"

namespace verbena::store {

inline constexpr uint64_t kDraftHigh = UINT64_MAX;
[[nodiscard]] constexpr bool is_draft(ObjectId id) { return id.high == kDraftHigh; }

// And those under which a cache notes what it has to remove behind (cache/graves.h).
inline constexpr uint64_t kGraveHigh = UINT64_MAX - 1;
// Neither is for those who use the store.
[[nodiscard]] constexpr bool is_hidden(ObjectId id) { return id.high >= kGraveHigh; }

// Of a draft that a server removes while clients are putting.
inline constexpr uint64_t kAbandonedNs = uint64_t{24} * 3600 * 1'000'000'000;

// Those last written to before this moment of the store's clock. How many. `remove` if the store is
// not all that has to know.
using RemoveDraft = std::function<Result<void>(ObjectId id)>;
[[nodiscard]] Result<uint64_t> remove_drafts(Objects& objects, uint64_t before_ns = UINT64_MAX,
                                             const RemoveDraft& remove = {});

}  // namespace verbena::store
