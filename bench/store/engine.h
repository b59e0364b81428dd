// SPDX-License-Identifier: Apache-2.0
// Stores to measure, and the limit that they are measured against: memory of the same size, touched
// before, that bytes are copied to, with one pass of CRC over the source.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::bench {

inline constexpr store::ObjectId kObject{1, 1};

enum class Medium : uint8_t {
  kMalloc,  // no log
  kShared,  // files in memory: what log and flushes cost without a disk
  kFiles,
  kStaged,
};
[[nodiscard]] const char* name_of(Medium medium);

// A store of so many bytes with one object, filled to half of them. Ends the process if it cannot.
[[nodiscard]] std::unique_ptr<store::Store> make_store(Medium medium, const std::string& folder,
                                                       uint64_t bytes, bool checksums);
[[noreturn]] void give_up(const std::string& what);
// What went wrong, if anything, ends the process.
void must(const store::Result<void>& result);
template <typename T>
T taken(store::Result<T> result) {
  if (!result) must(fail(result.error()));
  return std::move(*result);
}

// Bytes of an object that store was filled with.
[[nodiscard]] uint64_t filled(const store::Store& store);

class Arena {
 public:
  explicit Arena(uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  [[nodiscard]] uint8_t* memory() const { return memory_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  uint8_t* memory_;
  uint64_t bytes_;
};

}  // namespace verbena::bench
