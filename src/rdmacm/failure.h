// SPDX-License-Identifier: Apache-2.0
// How the entry points say no: -1 and errno. Nothing is thrown into the program.
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>

namespace verbena::rdmacm {

// 0, or -1 with errno.
[[nodiscard]] inline int answer(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// `call` gives 0 or an error number, or a pointer (and sets errno itself).
template <typename Call>
[[nodiscard]] auto guarded(Call&& call) -> decltype(call()) {
  using Given = decltype(call());
  try {
    if constexpr (std::is_pointer_v<Given>) {
      return call();
    } else {
      return answer(call());
    }
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    if constexpr (std::is_pointer_v<Given>) {
      return nullptr;
    } else {
      return -1;
    }
  }
}

}  // namespace verbena::rdmacm
