// SPDX-License-Identifier: Apache-2.0
// The caller's memory, registered when it is first used and kept so, for the next time. The caller
// may unmap it once its request is complete: nothing of ours uses the key then, and the device
// survives a late copy of a request that did. Memory that is unmapped and mapped again keeps its
// address, and a device may go on with the old pages; then the data of a request does not match its
// CRC, and forget() makes the next use register it anew.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>

#include "fabric/fabric.h"

namespace verbena::client {

class MemoryCache {
 public:
  static constexpr size_t kMaxEntries = 256;                // that nobody uses
  static constexpr uint64_t kMaxBytes = uint64_t{4} << 30;  // likewise

  explicit MemoryCache(fabric::Fabric& fabric) : fabric_(fabric) {}
  ~MemoryCache();

  struct Entry {
    uint8_t* begin = nullptr;
    size_t bytes = 0;
    fabric::Key key{};
    uint32_t users = 0;
    bool stale = false;                 // goes when nobody uses it
    std::list<Entry*>::iterator place;  // in idle_, without users
  };
  // Until it is released. The peer may read and write it.
  [[nodiscard]] fabric::Result<Entry*> use(std::span<uint8_t> memory);
  void release(Entry& entry);
  // What is registered of this memory is not used again.
  void forget(std::span<const uint8_t> memory);

 private:
  using Entries = std::multimap<const uint8_t*, Entry>;
  void remove(Entry& entry);
  void evict();

  fabric::Fabric& fabric_;
  Entries entries_;         // by where they begin
  std::list<Entry*> idle_;  // the one used last is the last
  uint64_t idle_bytes_ = 0;
};

}  // namespace verbena::client
