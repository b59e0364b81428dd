// SPDX-License-Identifier: Apache-2.0
#include "link/member_names.h"

#include <algorithm>
#include <atomic>

#include "link/clock.h"
#include "link/unix_dump.h"

namespace verbena::link {

std::optional<std::string> name_of_member(const GroupNames& names, const SharedTable& table,
                                          uint8_t slot) {
  const SlotRecord& record = table.slots[slot];
  // Pairs with Roster::enter(): the suffix of this incarnation or of a later one is read.
  const uint32_t incarnation = record.incarnation.load(std::memory_order_acquire);
  if (!is_taken(incarnation)) return std::nullopt;
  // Pairs with the release in Roster::enter(): who reads a later suffix sees below that the slot
  // was free in between.
  const uint64_t suffix = record.suffix.load(std::memory_order_acquire);
  if (record.incarnation.load(std::memory_order_relaxed) != incarnation) return std::nullopt;
  return names.member(slot, suffix);
}

uint64_t draw_suffix(RandomSource& random) {
  for (;;) {
    if (const uint64_t suffix = random.next(); suffix != 0) return suffix;
  }
}

std::vector<ListedMember> list_members(const GroupNames& names) {
  // Many more than there can be of this user, for those of others where the kernel does not tell.
  constexpr size_t kMostNames = 16'384;
  constexpr Duration kBound = 5 * kSecond;
  const Time until = monotonic_now() + kBound;
  std::vector<ListedMember> listed;
  const auto visit = [&](const NamedSocket& socket) {
    if (socket.owner && *socket.owner != names.user()) return true;
    if (const auto form = names.form_of(socket.name)) {
      listed.push_back({std::string(socket.name), *form == GroupNames::Form::kSuffixed});
    }
    return listed.size() < kMostNames;
  };
  if (!visit_names(Which::kListening, until, visit)) visit_names_in_proc(until, visit);
  // The kernel's order is that of hashes: members_sim would not be the same twice.
  std::ranges::sort(listed, {}, &ListedMember::name);
  return listed;
}

}  // namespace verbena::link
