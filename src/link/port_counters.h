// SPDX-License-Identifier: Apache-2.0
// What a device did, as counters of its port: each member keeps its own in the shared table, and
// whoever is of the same user on this host may read them, a member or not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <sys/types.h>

#include "base/time.h"
#include "link/membership.h"
#include "link/shared_table.h"

namespace verbena::link {

using PortTotals = std::array<uint64_t, kPortCounters>;

// A member's own. A slot's new owner goes on from what it finds there, so that the sum over all
// slots is what the host's processes did since the first of them came. Owned by the engine's lock
// holder: each number has one writer.
class OwnPortCounters {
 public:
  explicit OwnPortCounters(MemberCounters& shown);
  // `value` is of this process alone.
  void set(PortCounter counter, uint64_t value) {
    const auto i = static_cast<size_t>(counter);
    shown_->value[i].store(before_[i] + value, std::memory_order_relaxed);
  }

 private:
  MemberCounters* shown_;
  PortTotals before_{};
};

// Reads the sum over all members, from any process of the user. One thread at a time.
class PortCounterReader {
 public:
  explicit PortCounterReader(MembershipOptions options = {}) : options_(std::move(options)) {}
  // The numbers never fall for one reader, also when the last member has gone and others come.
  [[nodiscard]] PortTotals read();

 private:
  // Looks for members again if that was long ago.
  void look();
  [[nodiscard]] std::optional<TableMapping> find_table() const;
  [[nodiscard]] PortTotals sum() const;

  static constexpr Duration kLookEvery = kSecond;
  // To find nobody takes a millisecond or two.
  static constexpr Duration kLookForFirst = 20 * kMillisecond;
  MembershipOptions options_;
  std::optional<TableMapping> mapping_;
  ino_t which_ = 0;        // the table that is mapped
  PortTotals finished_{};  // of groups that are gone
  Time looked_ = 0;        // 0: never
};

}  // namespace verbena::link
