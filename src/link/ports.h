// SPDX-License-Identifier: Apache-2.0
// The ports of the connection manager among all members of a host: who has one, and who listens.
// Requests (REQ, SIDR_REQ) reach any member, which finds here whom they are for.
//
// Written under the group's lock; read without: a reader that meets a change sees the old or the
// new, or nothing, and the peer asks again. What a dead member had counts for nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "wire/address_set.h"
#include "wire/gid.h"

namespace verbena::link {

struct SharedTable;

struct PortEntry {
  std::atomic<uint64_t> service_id;  // 0: free
  std::array<std::atomic<uint64_t>, 2> address;
  std::atomic<uint32_t> slot;
  std::atomic<uint32_t> incarnation;  // of the slot
  std::atomic<uint32_t> kind;
  std::atomic<uint32_t> addresses;  // a wire::AddressSet::Kind
};

struct PortTable {
  static constexpr size_t kEntries = 4096;
  std::atomic<uint32_t> end;  // entries from here on were never used
  std::array<PortEntry, kEntries> entries;
};

struct Port {
  uint64_t service_id = 0;
  wire::AddressSet address{};
};

class Ports {
 public:
  // kBound excludes all others whose addresses overlap, kShared those that are not; kListening is
  // beside either, and excludes its like.
  enum class Kind : uint32_t { kBound = 1, kShared, kListening };

  Ports(SharedTable& table, uint8_t self) : table_(table), self_(self) {}

  // 0, EADDRINUSE, or ENOSPC when the table is full. Under the group's lock.
  [[nodiscard]] int add(const Port& port, Kind kind);
  // One of ours. No lock among processes; one at a time in this one.
  void remove(const Port& port, Kind kind);
  // All of ours.
  void clear();
  // Who listens: on this address alone, else on many.
  [[nodiscard]] std::optional<uint8_t> listener(uint64_t service_id,
                                                const wire::Gid& address) const;

 private:
  [[nodiscard]] uint32_t used() const;
  [[nodiscard]] bool is_live(const PortEntry& entry) const;

  SharedTable& table_;
  uint8_t self_;
};

}  // namespace verbena::link
