// SPDX-License-Identifier: Apache-2.0
#include "failing_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace verbena::store::trial {
namespace {

thread_local uint64_t until_failure = 0;  // 0: none fails
thread_local bool all_fail = false;
thread_local bool has_failed = false;

bool fails_now() {
  if (until_failure == 0) return false;
  --until_failure;
  if (until_failure != 0) return false;
  has_failed = true;
  if (all_fail) until_failure = 1;
  return true;
}

void* get(size_t bytes, size_t alignment) {
  if (fails_now()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* get_or_throw(size_t bytes, size_t alignment) {
  void* const memory = get(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void fail_allocation(uint64_t n, bool all_after) {
  has_failed = false;
  all_fail = all_after;
  until_failure = n;
}

bool stop_failing() {
  until_failure = 0;
  return has_failed;
}

}  // namespace verbena::store::trial

using verbena::store::trial::get;
using verbena::store::trial::get_or_throw;
constexpr size_t kUsual = alignof(std::max_align_t);

void* operator new(size_t bytes) { return get_or_throw(bytes, kUsual); }
void* operator new[](size_t bytes) { return get_or_throw(bytes, kUsual); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return get_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return get_or_throw(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return get(bytes, kUsual); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return get(bytes, kUsual); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return get(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return get(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
