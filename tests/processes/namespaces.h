// SPDX-License-Identifier: Apache-2.0
// Namespaces that the test makes: hosts (network namespaces) and containers' file systems (mount
// namespaces with their own /tmp and /dev/shm). Each lives as long as a small process that does
// nothing. They take root; without it a test is skipped.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace verbena::processes {

[[nodiscard]] bool is_root();

class Namespace {
 public:
  enum class Kind { kNetwork, kMount };
  explicit Namespace(Kind kind);
  ~Namespace();
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;

  // Whether it could be made.
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Moves this process into it; false if that is refused.
  [[nodiscard]] bool enter() const;
  // Runs a shell's command inside; its exit status.
  int run(const std::string& command) const;
  // Names in a folder as seen inside.
  [[nodiscard]] std::vector<std::string> list(const std::string& folder) const;

 private:
  Kind kind_;
  pid_t pid_ = -1;
  bool valid_ = false;
};

// Joins two hosts with a cable: addresses 10.77.0.1 and 10.77.0.2, fd77::1 and fd77::2.
[[nodiscard]] bool join_hosts(const Namespace& first, const Namespace& second);

}  // namespace verbena::processes
