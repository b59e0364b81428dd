// SPDX-License-Identifier: Apache-2.0
// Memory for packets under way: slots of one size. Those used last are used first, so that only as
// much memory is touched as was ever needed at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/mman.h>

#include "base/check.h"

namespace verbena::emulated {

class PacketPool {
 public:
  PacketPool(uint32_t slots, size_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {
    void* const memory = ::mmap(nullptr, slots_ * slot_bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    VERBENA_CHECK(memory != MAP_FAILED);
    memory_ = static_cast<uint8_t*>(memory);
  }
  ~PacketPool() { ::munmap(memory_, slots_ * slot_bytes_); }
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  [[nodiscard]] bool empty() const { return free_.empty() && fresh_ == slots_; }
  // One that is free. There is one.
  [[nodiscard]] uint32_t take() {
    if (free_.empty()) return fresh_++;
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(uint32_t slot) { free_.push_back(slot); }
  [[nodiscard]] uint8_t* at(uint32_t slot) { return memory_ + slot * slot_bytes_; }
  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }

 private:
  size_t slots_;
  size_t slot_bytes_;
  uint8_t* memory_ = nullptr;
  uint32_t fresh_ = 0;  // from here on none was used
  std::vector<uint32_t> free_;
};

}  // namespace verbena::emulated
