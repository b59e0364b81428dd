// SPDX-License-Identifier: Apache-2.0
#include "link/port_counters.h"

#include <utility>
#include <vector>

#include <poll.h>
#include <sys/stat.h>

#include "link/clock.h"
#include "link/joining.h"
#include "link/member_names.h"
#include "link/peers.h"
#include "link/unix_names.h"

namespace verbena::link {
namespace {

// One member's answer. A member that is stopped gives none; few are.
[[nodiscard]] std::optional<TableMapping> ask(const std::string& name, uid_t user) {
  constexpr int kPatienceMs = 50;
  const auto fd = connect_to(name);
  if (!fd || !identify_peer(fd->get(), user).same_user) return std::nullopt;
  if (!send_message(fd->get(), {PeerMessage::Kind::kAskTable, 0})) return std::nullopt;
  pollfd polled{fd->get(), POLLIN, 0};
  if (::poll(&polled, 1, kPatienceMs) <= 0) return std::nullopt;
  auto table = receive_table(fd->get());
  if (!table) return std::nullopt;
  auto mapping = TableMapping::adopt(std::move(*table));
  if (!mapping) return std::nullopt;
  return std::move(*mapping);
}

}  // namespace

OwnPortCounters::OwnPortCounters(MemberCounters& shown) : shown_(&shown) {
  for (size_t i = 0; i < kPortCounters; ++i) {
    before_[i] = shown.value[i].load(std::memory_order_relaxed);
  }
}

std::optional<TableMapping> PortCounterReader::find_table() const {
  const std::vector<uint16_t> ports = candidate_ports(options_.udp.port);
  for (const uint16_t port : ports) {
    const GroupNames names(options_.group, port);
    for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
      const std::string name = names.member(static_cast<uint8_t>(slot));
      if (auto mapping = ask(name, names.user())) return mapping;
    }
  }
  for (const uint16_t port : ports) {
    if (!is_port_of_ours(port)) continue;
    const GroupNames names(options_.group, port);
    for (const ListedMember& member : list_members(names)) {
      if (!member.has_suffix) continue;
      if (auto mapping = ask(member.name, names.user())) return mapping;
    }
  }
  return std::nullopt;
}

PortTotals PortCounterReader::sum() const {
  PortTotals totals{};
  if (!mapping_) return totals;
  for (const MemberCounters& member : mapping_->table().counters) {
    for (size_t i = 0; i < kPortCounters; ++i) {
      totals[i] += member.value[i].load(std::memory_order_relaxed);
    }
  }
  return totals;
}

void PortCounterReader::look() {
  const Time now = monotonic_now();
  if (looked_ != 0 && now - looked_ < (mapping_ ? kLookEvery : kLookForFirst)) return;
  looked_ = now;
  auto found = find_table();
  struct stat status{};
  const bool known = found && ::fstat(found->fd(), &status) == 0;
  if (known && mapping_ && status.st_ino == which_) return;
  const PortTotals last = sum();
  for (size_t i = 0; i < kPortCounters; ++i) finished_[i] += last[i];
  mapping_ = std::move(found);
  which_ = status.st_ino;
}

PortTotals PortCounterReader::read() {
  look();
  PortTotals totals = sum();
  for (size_t i = 0; i < kPortCounters; ++i) totals[i] += finished_[i];
  return totals;
}

}  // namespace verbena::link
