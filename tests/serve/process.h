// SPDX-License-Identifier: Apache-2.0
// Processes that a test starts, talks to and kills. None outlives the test.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace verbena::serve {

class Process {
 public:
  Process() = default;
  // Its standard input and output are ours.
  explicit Process(const std::vector<std::string>& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int output() const { return out_.get(); }
  // Its next line; nothing if it ends, or says nothing for two minutes.
  [[nodiscard]] std::optional<std::string> line();
  void say(const std::string& text) const;
  void close_input() { in_.reset(); }
  void signal(int number) const;
  // Until it ends: its exit status, or minus the signal that ended it.
  [[nodiscard]] int wait();

 private:
  void end();

  pid_t pid_ = 0;
  UniqueFd in_;
  UniqueFd out_;
  std::string unread_;
};

}  // namespace verbena::serve
