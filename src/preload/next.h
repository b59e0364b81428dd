// SPDX-License-Identifier: Apache-2.0
// The function that a program would have got without us: the C library's, or that of another guest.
#pragma once

#include <atomic>

#include <dlfcn.h>

#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbena::preload {

// A name as a template argument, so that each function has its own place to be remembered in.
template <size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
  char letters[N] = {};
};

// Looked up without locks: allocators open files while they are being set up, and dlsym may
// allocate. Two threads that look at once find the same.
template <Name kName, typename Function>
[[nodiscard]] Function* next() {
  static constinit std::atomic<Function*> known = nullptr;
  Function* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, kName.letters));
    known.store(found, std::memory_order_relaxed);
  }
  return found;
}

}  // namespace verbena::preload

// NEXT(open)(path, flags): by its own declaration.
#define NEXT(function) (::verbena::preload::next<#function, decltype(::function)>())
