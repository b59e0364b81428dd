// SPDX-License-Identifier: Apache-2.0
// Which client reads or writes which range of which object: registered, refused where it conflicts
// with another client's, dropped all at once when a client is gone. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "store/error.h"

namespace verbena::store {

using ClientId = uint64_t;  // 0: nobody in particular, who has no ranges
using RangeId = uint64_t;

enum class Access : uint8_t { kRead, kWrite };

class RangeRegistry {
 public:
  // Two ranges conflict when they overlap, are of different clients and one of them is for writing.
  // length 0: to the end of the object, however long it becomes.
  [[nodiscard]] Result<RangeId> add(ClientId client, ObjectId object, uint64_t offset,
                                    uint64_t length, Access access);
  // Only the client that has it may.
  [[nodiscard]] Result<void> remove(ClientId client, RangeId range);
  void drop(ClientId client);
  void drop(ObjectId object);  // it was deleted
  // Whether a write of this client would go against a range of another's.
  [[nodiscard]] Result<void> check_write(ClientId client, ObjectId object, uint64_t offset,
                                         uint64_t length) const;
  [[nodiscard]] size_t size() const;

  static constexpr size_t kMaxPerClient = 4096;

 private:
  struct Range {
    RangeId id;
    ClientId client;
    uint64_t offset;
    uint64_t end;  // exclusive
    Access access;
  };
  mutable std::mutex mutex_;
  RangeId next_ = 1;
  // By object, sorted by offset.
  std::map<ObjectId, std::vector<Range>> by_object_;
  std::unordered_map<ClientId, std::unordered_map<RangeId, ObjectId>> by_client_;
};

}  // namespace verbena::store
