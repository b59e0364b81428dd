// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: temporary folders, patterns in blocks, a registrar that
// keeps count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "base/mutex.h"
#include "medium/backend.h"

namespace verbena::medium {

// A folder that is removed with all in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "verbena-medium-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Bytes that tell seed and place.
inline uint8_t pattern_at(uint32_t seed, size_t offset) {
  return static_cast<uint8_t>(seed * 131 + offset + (offset >> 8) * 7);
}
inline void fill_pattern(uint8_t* memory, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i) memory[i] = pattern_at(seed, i);
}
inline bool has_pattern(const uint8_t* memory, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i) {
    if (memory[i] != pattern_at(seed, i)) return false;
  }
  return true;
}

class CountingRegistrar final : public Registrar {
 public:
  Result<void> add(uint8_t* memory, size_t bytes) override {
    const MutexLock lock(mutex_);
    if (refuse) return fail(Error{Code::kNoMemory, "the device refuses"});
    memory[0] = memory[0];  // it is mapped
    if (!mappings_.emplace(memory, bytes).second) std::abort();
    return {};
  }
  void remove(uint8_t* memory, size_t bytes) override {
    const MutexLock lock(mutex_);
    const auto found = mappings_.find(memory);
    if (found == mappings_.end() || found->second != bytes) std::abort();
    mappings_.erase(found);
  }
  // Whether these bytes are registered.
  [[nodiscard]] bool covers(const uint8_t* memory, size_t bytes) const {
    const MutexLock lock(mutex_);
    for (const auto& [start, length] : mappings_) {
      if (memory >= start && memory + bytes <= start + length) return true;
    }
    return false;
  }

  // How many are registered.
  [[nodiscard]] size_t count() const {
    const MutexLock lock(mutex_);
    return mappings_.size();
  }

  bool refuse = false;

 private:
  mutable Mutex mutex_;
  std::map<uint8_t*, size_t> mappings_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::medium
