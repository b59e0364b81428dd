// SPDX-License-Identifier: Apache-2.0
// Memory that maps files, guarded against SIGBUS: what the disk cannot read, or what was cut off a
// file while it was mapped, reads as zeros, and is known from then on.
//
// A page whose access fails is replaced by a page of anonymous memory, and the access goes on. That
// costs nothing where all is well; reading by a system call instead (pread, process_vm_readv) costs
// more than verifying the chunk does. Zeros are no valid chunk, so a reader finds damage like any
// other. What is written to such a page is not in the file: the owner asks before it syncs.
//
// The signal handler is installed once, with the first guard, and stays; signals from elsewhere go
// on to the handler that was there before. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "medium/backend.h"

namespace verbena::medium {

class MappedGuard {
 public:
  // [memory, memory + bytes), of whole pages. It goes before the addresses are another's.
  [[nodiscard]] static Result<std::unique_ptr<MappedGuard>> make(uint8_t* memory, size_t bytes,
                                                                 bool read_only);
  MappedGuard(const MappedGuard&) = delete;
  MappedGuard& operator=(const MappedGuard&) = delete;
  ~MappedGuard();

  // Whether any page was replaced at all: cheap.
  [[nodiscard]] bool any() const { return any_.load(std::memory_order_acquire); }
  // Whether one of these bytes is in such a page.
  [[nodiscard]] bool lost(const uint8_t* memory, size_t bytes) const;
  [[nodiscard]] size_t page_bytes() const { return page_; }

 private:
  friend class MappedGuards;
  MappedGuard(uint8_t* memory, size_t bytes, bool read_only);
  // In a signal handler. False: it is not ours to handle, or cannot be helped.
  [[nodiscard]] bool replace(uintptr_t address, bool poisoned);
  [[nodiscard]] size_t map_bytes() const;

  const uintptr_t begin_;
  const size_t bytes_;
  const size_t page_;
  const int protection_;
  // A bit for each page, in memory that takes no room before it is written to.
  std::atomic<uint64_t>* replaced_ = nullptr;
  std::atomic<bool> any_ = false;  // released after the page is there
};

}  // namespace verbena::medium
