// SPDX-License-Identifier: Apache-2.0
// Memory that may or may not be there. Registered regions are made present once (populate) and then
// touched directly; on-demand regions are read and written through the kernel (process_vm_readv and
// _writev on ourselves), for which a bad address is an error and never a signal: the peer chooses
// it.
#pragma once

#include <cstdint>

#include "memory/accessor.h"

namespace verbena::device {

class OnDemandAccessor final : public memory::Accessor {
 public:
  OnDemandAccessor();
  [[nodiscard]] memory::Fault read(const uint8_t* from, std::span<uint8_t> to) override;
  [[nodiscard]] memory::Fault write(uint8_t* to, std::span<const uint8_t> from) override;

 private:
  int self_;  // pid; renewed after fork by making a new accessor
};

// Reads what was registered and made present, and may have been unmapped since. Where the kernel
// does not let a process read itself so, the memory is touched directly.
class RepeatAccessor final : public memory::Accessor {
 public:
  [[nodiscard]] memory::Fault read(const uint8_t* from, std::span<uint8_t> to) override;
  [[nodiscard]] memory::Fault write(uint8_t* to, std::span<const uint8_t> from) override;
};

// Takes everything and gives zeros: the null region.
class NullAccessor final : public memory::Accessor {
 public:
  [[nodiscard]] memory::Fault read(const uint8_t* from, std::span<uint8_t> to) override;
  [[nodiscard]] memory::Fault write(uint8_t* to, std::span<const uint8_t> from) override;
};

// Makes the pages of a range present, as pinning does. 0, or EFAULT where there is no memory (or,
// when `writable`, none that may be written).
[[nodiscard]] int populate(const void* start, uint64_t length, bool writable);

}  // namespace verbena::device
