// SPDX-License-Identifier: Apache-2.0
// Two processes, each pinned to a core, that do one measurement together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace verbena::bench {

enum class Role : uint8_t { kInitiator, kTarget };

// One end's view of the other: a socket pair, to agree on names and on the start.
class Control {
 public:
  explicit Control(int fd) : fd_(fd) {}
  void tell(const void* data, size_t bytes) const;
  void hear(void* data, size_t bytes) const;
  void barrier() const;
  // Whether the other end has said something.
  [[nodiscard]] bool pending() const;

 private:
  int fd_;
};

// What the initiator measured, and what both spent.
struct Measured {
  std::vector<double> values;  // empty: it failed, with a message on stderr
  double cpu_seconds = 0;
};

using End = std::function<std::vector<double>(Role role, const Control& control)>;

// Runs the two ends in processes of their own, on cores 0 and 1 of those allowed to us (on one core
// where there is no other). With `spinners` another process of each core's does nothing but spin.
[[nodiscard]] Measured run_ends(const End& end, bool spinners = false);

// The cores used, for the report.
[[nodiscard]] int core_of(Role role);

// Ends the process with a message if `error` is not 0.
void must(int error, const char* what);

[[nodiscard]] double now_s();

}  // namespace verbena::bench
