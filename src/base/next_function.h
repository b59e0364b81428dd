// SPDX-License-Identifier: Apache-2.0
// For libraries that are preloaded: the function that a program would have got without us, the C
// library's or that of another guest.
#pragma once

#include <atomic>
#include <cstddef>

#include <dlfcn.h>

namespace verbena {

// A name as a template argument, so that each function has its own place to be remembered in.
template <size_t N>
struct FunctionName {
  constexpr FunctionName(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
  char letters[N] = {};
};

// Looked up without locks: allocators open files while they are being set up, and dlsym may
// allocate. Two threads that look at once find the same.
template <FunctionName kName, typename Function>
[[nodiscard]] Function* next_function() {
  static constinit std::atomic<Function*> known = nullptr;
  Function* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, kName.letters));
    known.store(found, std::memory_order_relaxed);
  }
  return found;
}

}  // namespace verbena

// NEXT(open)(path, flags): by its own declaration.
#define NEXT(function) (::verbena::next_function<#function, decltype(::function)>())
