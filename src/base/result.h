// SPDX-License-Identifier: Apache-2.0
// Result<T, E>: a value or the reason there is none. Each module has one error enum.
#pragma once

#include <expected>
#include <utility>

namespace verbena {

template <typename T, typename E>
using Result = std::expected<T, E>;

template <typename E>
[[nodiscard]] constexpr std::unexpected<E> fail(E reason) {
  return std::unexpected<E>(std::move(reason));
}

}  // namespace verbena
