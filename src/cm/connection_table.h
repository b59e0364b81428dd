// SPDX-License-Identifier: Apache-2.0
// The connections, found by our id, by the peer's id, and by the peer's queue pair. It owns them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/random.h"
#include "cm/comm_ids.h"
#include "cm/connection.h"
#include "cm/seeded_hash.h"

namespace verbena::cm {

class ConnectionTable {
 public:
  // Numbers of a peer's that lead to a connection, each in a space of its own.
  enum class Space : uint8_t { kCommId, kSidrRequest, kQpn };

  ConnectionTable(uint8_t slot, uint32_t max_entries, RandomSource& random)
      : ids_(slot, random), max_entries_(max_entries), remote_(0, RemoteHash{random.next()}) {}

  [[nodiscard]] bool full() const { return by_id_.size() >= max_entries_; }
  [[nodiscard]] size_t size() const { return by_id_.size(); }

  // A new one with an id of its own. Only when not full.
  [[nodiscard]] Connection& add();
  [[nodiscard]] Connection* find(uint32_t id) const;
  [[nodiscard]] Connection* find_remote(Space space, const wire::Gid& peer, uint32_t number) const;
  // Makes it known by the ids and numbers of the peer's that it has; those that another has first
  // stay with that.
  void index_remote(Connection& connection);
  // Its peer's queue pair is free for another connection.
  void forget_qpn(Connection& connection);
  void erase(Connection& connection);

  // Some entry, to empty the table; nullptr when it is empty.
  [[nodiscard]] Connection* any() const {
    return by_id_.empty() ? nullptr : by_id_.begin()->second.get();
  }

 private:
  struct RemoteKey {
    wire::Gid peer;
    uint32_t number;
    Space space;
    friend bool operator==(const RemoteKey&, const RemoteKey&) = default;
  };
  struct RemoteHash {
    uint64_t seed;
    size_t operator()(const RemoteKey& key) const {
      const auto words = key.peer.words();
      return seeded_hash(seed, {words[0], words[1],
                                (uint64_t{static_cast<uint8_t>(key.space)} << 32) | key.number});
    }
  };
  template <typename F>
  static void for_each_key(const Connection& connection, F&& visit);
  void drop(const RemoteKey& key, const Connection& connection);

  CommIdSequence ids_;
  uint32_t max_entries_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> by_id_;
  std::unordered_map<RemoteKey, Connection*, RemoteHash> remote_;
};

}  // namespace verbena::cm
