// SPDX-License-Identifier: Apache-2.0
// Addresses reserved for all blocks of a medium, and files mapped there one behind the other,
// through libpmem2: a block's address follows from its position. Not thread-safe but for looking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <libpmem2.h>

#include "medium/backend.h"

namespace verbena::medium {

class PmemReservation {
 public:
  [[nodiscard]] static Result<std::unique_ptr<PmemReservation>> make(size_t bytes);
  PmemReservation(const PmemReservation&) = delete;
  PmemReservation& operator=(const PmemReservation&) = delete;
  ~PmemReservation();

  [[nodiscard]] uint8_t* base() const { return base_; }
  [[nodiscard]] pmem2_vm_reservation* get() const { return reservation_; }
  // Of base() in what libpmem2 has reserved.
  [[nodiscard]] size_t skipped() const { return skipped_; }

 private:
  PmemReservation() = default;
  pmem2_vm_reservation* reservation_ = nullptr;
  uint8_t* base_ = nullptr;  // aligned to a huge page
  size_t skipped_ = 0;
};

// A file at so many bytes behind base(). It goes before the reservation does.
class PmemMapping {
 public:
  [[nodiscard]] static Result<std::unique_ptr<PmemMapping>> make(const PmemReservation& where,
                                                                 size_t offset, int fd,
                                                                 size_t bytes, bool read_only);
  PmemMapping(const PmemMapping&) = delete;
  PmemMapping& operator=(const PmemMapping&) = delete;
  ~PmemMapping();

  [[nodiscard]] uint8_t* memory() const { return memory_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  // Memory is the medium; otherwise the page cache is in between.
  [[nodiscard]] bool direct() const { return direct_; }
  // For direct() ones: these bytes are durable when it returns. Draining waits for what this
  // processor flushed, so it cannot be left to another thread's fence.
  void persist(const uint8_t* memory, size_t bytes) const {
    flush_(memory, bytes);
    drain_();
  }

 private:
  PmemMapping() = default;
  pmem2_map* map_ = nullptr;
  pmem2_flush_fn flush_ = nullptr;
  pmem2_drain_fn drain_ = nullptr;
  uint8_t* memory_ = nullptr;
  size_t bytes_ = 0;
  bool direct_ = false;
};

}  // namespace verbena::medium
