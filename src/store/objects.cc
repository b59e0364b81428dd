// SPDX-License-Identifier: Apache-2.0
#include "store/objects.h"

namespace verbena::store {
namespace {

[[nodiscard]] Error not_offered(const char* what) {
  return {Code::kUnsupported, std::string(what) + ": this kind of store does not offer it", {}};
}

}  // namespace

Result<std::vector<SegmentInfo>> Objects::segments(ObjectId, uint64_t, size_t) const {
  return fail(not_offered("segments of objects"));
}

Result<BehindReport> Objects::go_behind(const std::optional<ObjectId>& /*id*/,
                                        BehindAction /*action*/) {
  return fail(not_offered("what is behind a cache"));
}
Result<uint32_t> Objects::stored_crc(ObjectId, uint64_t, uint64_t) const {
  return fail(not_offered("stored CRCs of objects"));
}

Result<RangeId> Objects::register_range(ObjectId, uint64_t, uint64_t, Access) {
  return fail(not_offered("ranges of objects"));
}
Result<void> Objects::unregister_range(RangeId) { return fail(not_offered("ranges of objects")); }

}  // namespace verbena::store
