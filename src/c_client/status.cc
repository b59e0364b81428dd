// SPDX-License-Identifier: Apache-2.0
#include "c_client/status.h"

#include <algorithm>
#include <array>

#include "base/c_interface.h"
#include "protocol/status.h"

namespace verbena::c_client {
namespace {

// As long as the server's sentences are, and some words around them. No destructor at the thread's
// end.
thread_local std::array<char, 1024> last_error{};

}  // namespace

int failed(int status, std::string_view text) {
  const size_t length = std::min(text.size(), last_error.size() - 1);
  std::ranges::copy(text.substr(0, length), last_error.begin());
  last_error[length] = '\0';
  return status;
}

int status_of(const client::Error& error) {
  switch (error.code) {
    case client::Code::kAnswered:    break;
    case client::Code::kUnreachable: return VERBENA_UNREACHABLE;
    case client::Code::kUnknown:     return VERBENA_UNKNOWN;
    case client::Code::kRefused:
    case client::Code::kNoFabric:    return VERBENA_REFUSED;
    case client::Code::kCorrupted:   return VERBENA_CORRUPTED;
    case client::Code::kInvalid:     return VERBENA_INVALID;
    case client::Code::kLocal:       return VERBENA_NO_DEVICE;
    case client::Code::kCancelled:   return VERBENA_CANCELLED;
  }
  // The numbers are the protocol's. An id that belongs to another request is the library's mistake.
  if (error.status == protocol::Status::kMismatch) return VERBENA_INTERNAL;
  return static_cast<int>(error.status);
}

int failed(const client::Error& error) { return failed(status_of(error), error.what); }

}  // namespace verbena::c_client

using namespace verbena;

VERBENA_EXPORT uint32_t verbena_client_version(void) { return VERBENA_CLIENT_VERSION; }

VERBENA_EXPORT const char* verbena_last_error(void) { return c_client::last_error.data(); }

VERBENA_EXPORT const char* verbena_status_name(int status) {
  switch (status) {
    case VERBENA_UNREACHABLE: return "unreachable";
    case VERBENA_UNKNOWN:     return "unknown";
    case VERBENA_REFUSED:     return "refused";
    case VERBENA_CANCELLED:   return "cancelled";
    case VERBENA_NO_DEVICE:   return "no-device";
    case VERBENA_AGAIN:       return "again";
    default:                  break;
  }
  constexpr int kMismatch = static_cast<int>(protocol::Status::kMismatch);
  if (status < 0 || status > protocol::kMaxStatus || status == kMismatch) return "unknown-status";
  return protocol::name_of(static_cast<protocol::Status>(status));
}
