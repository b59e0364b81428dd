// SPDX-License-Identifier: Apache-2.0
// The store's memory, as the fabric knows it: registered for the server's own use alone, so that no
// client ever has a key to it. Mappings come and go by any thread. The loop registers them before
// it next needs them. One that goes is not registered any more when remove() returns, so that its
// pages and its file are nobody's; chunks in it are not in use, for transfers pin theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "fabric/fabric.h"
#include "medium/backend.h"
#include "store/store.h"

namespace verbena::server {

class ChunkMemory final : public medium::Registrar {
 public:
  medium::Result<void> add(uint8_t* memory, size_t bytes) override;
  void remove(uint8_t* memory, size_t bytes) override;

  // --- the loop
  // Before the first list(), and again after memory came: an error if the fabric does not take it.
  [[nodiscard]] fabric::Result<void> refresh(fabric::Fabric& fabric);
  // The fabric goes, and all registrations with it.
  void forget_fabric();
  // As the fabric wants it; valid until the next call. `crcs`: whole chunks get their data's CRC.
  [[nodiscard]] std::span<const fabric::Local> list(std::span<const store::Scatter> pieces,
                                                    bool crcs);

 private:
  struct Mapping {
    uint8_t* memory;
    size_t bytes;
  };
  static constexpr uint32_t kZeros = 64 * 1024;

  Mutex mutex_;
  std::vector<Mapping> waiting_ VERBENA_GUARDED_BY(mutex_);  // to be registered
  fabric::Fabric* fabric_ VERBENA_GUARDED_BY(mutex_) = nullptr;
  std::map<const uint8_t*, fabric::Key> keys_ VERBENA_GUARDED_BY(mutex_);
  std::atomic<bool> any_waiting_{true};  // or it is the first time
  // The loop's.
  std::vector<uint8_t> zeros_;  // what holes are read from
  std::vector<fabric::Local> locals_;
};

}  // namespace verbena::server
