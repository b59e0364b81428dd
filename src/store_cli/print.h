// SPDX-License-Identifier: Apache-2.0
// The standard output of a command. Errors are remembered instead of thrown (fmt::print throws
// where a reader has gone, as in `| head -1`); Report::finish() tells of them.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace verbena::store_cli {

void print_text(std::string_view text);
// errno of the first write that failed; 0: none has.
[[nodiscard]] int output_error();
// Writes out what is buffered; output_error().
[[nodiscard]] int flush_output();

template <typename... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace verbena::store_cli
