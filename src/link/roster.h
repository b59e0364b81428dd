// SPDX-License-Identifier: Apache-2.0
// The members and the order of their sockets, as the holder of the group's lock reads and changes
// them in the shared table. The order mirrors what the kernel does: a new socket goes to the end,
// and when one is closed the last takes its index. When several died since anyone looked, the
// result depends on who died first, which nobody saw; then the order here is a guess until probes
// have told it (move_to).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::link {

struct Entry {
  uint32_t pid = 0;
  std::array<uint16_t, kFamilies> source_port{};  // 0: family absent
  uint32_t budget = 0;
  bool takes_rings = false;
  uint64_t suffix = 0;  // of its name
};

class Roster {
 public:
  explicit Roster(SharedTable& table) : table_(table) {}

  // Frees the slots of members whose name nobody holds any more, and mends what a killed holder
  // left half done. Gives how many died.
  uint32_t reap_dead(const GroupNames& names, std::optional<uint8_t> self, Time now);
  // A random free slot that has rested, else the one that has rested longest; none when all are
  // taken.
  [[nodiscard]] std::optional<uint8_t> choose_slot(RandomSource& random, Time now,
                                                   Duration rest) const;
  void enter(uint8_t slot, const Entry& entry);
  void leave(uint8_t slot, Time now);
  // A probe has shown that `slot` owns `index`. False when that was known.
  bool move_to(Family family, uint32_t index, uint8_t slot);

  [[nodiscard]] std::vector<uint8_t> order(Family family) const;
  // Whether the attached programs are older than the table.
  [[nodiscard]] bool needs_steering() const;
  void mark_steered();
  // Whether they send packets to sockets that are others' by now.
  [[nodiscard]] bool misleads() const;

 private:
  [[nodiscard]] bool has_family(uint8_t slot, size_t family) const;
  void remove(size_t family, uint8_t slot);
  bool mend(size_t family);
  void store(size_t family, const std::vector<uint8_t>& order);
  void members_changed();
  void changed();

  SharedTable& table_;
};

}  // namespace verbena::link
