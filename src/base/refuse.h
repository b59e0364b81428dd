// SPDX-License-Identifier: Apache-2.0
// Entry points of the drop-in libraries that are not offered. For sources of nothing else: it makes
// functions in each file that includes it.
#pragma once

#include <cerrno>
#include <type_traits>

#include <sys/types.h>

#include "base/c_interface.h"

// VERBENA_REFUSE(way, function): the entry point `function` of a header, which is not offered and
// says EOPNOTSUPP in the way its man page has it. It stands for one of the functions below,
// which look at no argument, whatever the header's are; the type it returns must be theirs. The
// second declaration repeats the header's, so a name that the header does not have does not
// compile.
#define VERBENA_REFUSE(way, function)                                                             \
  static_assert(verbena::c_interface::returns_like<decltype(function), decltype(verbena_##way)>); \
  VERBENA_EXPORT __attribute__((alias("verbena_" #way))) decltype(function) function

// Aliases of a type other than their target's are meant; see above.
#pragma GCC diagnostic ignored "-Wattribute-alias"
#pragma GCC diagnostic ignored "-Wmissing-attributes"

namespace verbena::c_interface {

template <typename Function>
struct Returned;
template <typename R, typename... Arguments>
struct Returned<R(Arguments...)> {
  using Type = R;
};
template <typename R, typename... Arguments>
struct Returned<R(Arguments..., ...)> {
  using Type = R;
};

// All pointers are returned alike.
template <typename Function>
using Shape = std::conditional_t<std::is_pointer_v<typename Returned<Function>::Type>, void*,
                                 typename Returned<Function>::Type>;
template <typename One, typename Other>
constexpr bool returns_like = std::is_same_v<Shape<One>, Shape<Other>>;

}  // namespace verbena::c_interface

// The names are for the aliases alone.
#define VERBENA_ANSWER(type, way)                                 \
  [[gnu::used]] static type verbena_##way() asm("verbena_" #way); \
  type verbena_##way()

VERBENA_ANSWER(int, error_number) { return verbena::with_errno(EOPNOTSUPP); }
VERBENA_ANSWER(int, minus_one) {
  errno = EOPNOTSUPP;
  return -1;
}
VERBENA_ANSWER(ssize_t, minus_one_long) {
  errno = EOPNOTSUPP;
  return -1;
}
VERBENA_ANSWER(void*, null) {
  errno = EOPNOTSUPP;
  return nullptr;
}
VERBENA_ANSWER(void, nothing) {}  // there is nothing to give back
#undef VERBENA_ANSWER
