// SPDX-License-Identifier: Apache-2.0
// The line between the two ends of a test beside the one that is tested: a socket pair. Each call
// gives up after kPatience, and at once when the other end is gone, by throwing Broken.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/unique_fd.h"

namespace verbena::device::testing {

// The test cannot go on: a deadline passed, a call was refused, the other end is gone.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Control {
 public:
  explicit Control(UniqueFd fd) : fd_(std::move(fd)) {}
  // Two that speak to each other.
  [[nodiscard]] static std::pair<Control, Control> make();

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
  // Both ends meet here.
  void barrier();
  // Whether the other end has said something (or is gone).
  [[nodiscard]] bool waiting() const;
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace verbena::device::testing
