// SPDX-License-Identifier: Apache-2.0
// How calls of <verbena/client.h> end: a status, and a sentence that the calling thread can ask
// for. No exception leaves a call.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "client/client.h"
#include "verbena/client.h"

namespace verbena::c_client {

// The status; the text is kept for verbena_last_error().
int failed(int status, std::string_view text);
int failed(const client::Error& error);
[[nodiscard]] int status_of(const client::Error& error);

template <typename T>
[[nodiscard]] int ended(const client::Result<T>& result) {
  return result ? VERBENA_OK : failed(result.error());
}

template <typename Call>
[[nodiscard]] int guarded(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return failed(VERBENA_NO_MEMORY, "this process has no memory");
  } catch (const std::exception& error) {
    return failed(VERBENA_INTERNAL, error.what());
  }
}

}  // namespace verbena::c_client
