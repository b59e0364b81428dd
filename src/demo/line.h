// SPDX-License-Identifier: Apache-2.0
// The line between the two processes of the live run, beside the device that is shown: a socket
// pair, on which they agree on names and on whose turn it is. A call gives up after kPatience, and
// at once when the other process is gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/unique_fd.h"

namespace verbena::demo {

// Longer than anything takes on a busy machine under a sanitizer.
inline constexpr std::chrono::seconds kPatience{20};

// The run cannot go on; the text is for a person.
struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The other process has ended: its own reason is the one to tell.
struct OtherGone : Problem {
  OtherGone() : Problem("the other process has ended") {}
};

class Line {
 public:
  explicit Line(UniqueFd fd) : fd_(std::move(fd)) {}
  // Two that speak to each other.
  [[nodiscard]] static std::pair<Line, Line> make();

  void tell_bytes(const void* data, size_t bytes);
  void hear_bytes(void* data, size_t bytes);
  template <typename T>
  void tell(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    tell_bytes(&value, sizeof value);
  }
  template <typename T>
  [[nodiscard]] T hear() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    hear_bytes(&value, sizeof value);
    return value;
  }
  // Both processes meet here.
  void meet();
  // Whether the other process has said something.
  [[nodiscard]] bool waiting() const;
  // Throws OtherGone if it has ended.
  void check_other() const;
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace verbena::demo
