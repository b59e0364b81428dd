// SPDX-License-Identifier: Apache-2.0
// A place for one object at a time, each in memory of its own that nobody can touch once the object
// is destroyed: who does ends the process.
#pragma once

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "base/check.h"

namespace verbena::progress_sim {

template <typename T>
class Guarded {
 public:
  Guarded() = default;
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() {
    if (object_ != nullptr) std::destroy_at(object_);
    for (void* const page : pages_) ::munmap(page, kBytes);
  }

  template <typename... Arguments>
  T& emplace(Arguments&&... arguments) {
    VERBENA_CHECK(object_ == nullptr);
    void* const page =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VERBENA_CHECK(page != MAP_FAILED);
    pages_.push_back(page);
    object_ = new (page) T(std::forward<Arguments>(arguments)...);
    return *object_;
  }
  void destroy() {
    std::destroy_at(std::exchange(object_, nullptr));
    VERBENA_CHECK(::mprotect(pages_.back(), kBytes, PROT_NONE) == 0);
  }
  [[nodiscard]] bool has_value() const { return object_ != nullptr; }
  [[nodiscard]] T& operator*() { return *object_; }

 private:
  static constexpr size_t kBytes = 4096;
  static_assert(sizeof(T) <= kBytes);

  T* object_ = nullptr;
  std::vector<void*> pages_;  // of all that there were
};

}  // namespace verbena::progress_sim
