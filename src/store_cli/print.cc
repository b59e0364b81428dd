// SPDX-License-Identifier: Apache-2.0
#include "store_cli/print.h"

#include <cerrno>
#include <cstdio>

namespace verbena::store_cli {
namespace {

int first_error = 0;

void remember(bool wrote) {
  if (!wrote && first_error == 0) first_error = errno != 0 ? errno : EIO;
}

}  // namespace

void print_text(std::string_view text) {
  if (first_error != 0) return;  // what comes behind a gap is of no use
  remember(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

int output_error() { return first_error; }

int flush_output() {
  remember(std::fflush(stdout) == 0);
  return first_error;
}

}  // namespace verbena::store_cli
