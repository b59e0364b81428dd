// SPDX-License-Identifier: Apache-2.0
// Values of options, as programs give and get them: in memory of any alignment, and perhaps too
// short.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <optional>

#include <sys/socket.h>
#include <sys/time.h>

namespace verbena::rsocket {

template <typename T>
[[nodiscard]] std::optional<T> read_value(const void* value, socklen_t length) {
  if (value == nullptr || length < sizeof(T)) return std::nullopt;
  T given;
  std::memcpy(&given, value, sizeof given);
  return given;
}

template <typename T>
[[nodiscard]] int write_value(const T& given, void* value, socklen_t* length) {
  if (value == nullptr || length == nullptr) return -EFAULT;
  *length = std::min<socklen_t>(*length, sizeof given);
  std::memcpy(value, &given, *length);
  return 0;
}

[[nodiscard]] inline int read_time(const void* value, socklen_t length,
                                   std::chrono::microseconds& to) {
  constexpr int64_t kMostSeconds = 1'000'000'000;
  const auto given = read_value<timeval>(value, length);
  if (!given) return -EINVAL;
  if (given->tv_usec < 0 || given->tv_usec >= 1'000'000) return -EDOM;
  to = std::chrono::seconds(std::clamp<int64_t>(given->tv_sec, 0, kMostSeconds)) +
       std::chrono::microseconds(given->tv_usec);
  return 0;
}

[[nodiscard]] inline timeval time_of(std::chrono::microseconds from) {
  timeval shown{};
  shown.tv_sec = from.count() / 1'000'000;
  shown.tv_usec = from.count() % 1'000'000;
  return shown;
}

[[nodiscard]] inline uint32_t twice(int bytes) {
  return static_cast<uint32_t>(std::clamp(bytes, 0, INT_MAX / 2)) * 2;
}

inline constexpr uint32_t kMostInline = 0xfffe;

}  // namespace verbena::rsocket
