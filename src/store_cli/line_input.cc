// SPDX-License-Identifier: Apache-2.0
#include "store_cli/line_input.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <unistd.h>

#include "store_cli/interrupts.h"

namespace verbena::store_cli {

bool LineInput::would_wait() const {
  if (end_ || buffer_.find('\n', at_) != std::string::npos) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 0;
}

Result<std::optional<std::string>, std::string> LineInput::next() {
  size_t searched = at_;
  for (;;) {
    const size_t newline = buffer_.find('\n', searched);
    if (newline != std::string::npos) {
      std::string line = buffer_.substr(at_, newline - at_);
      at_ = newline + 1;
      return line;
    }
    if (buffer_.size() - at_ > kMaxLine) return fail(std::string("a line is too long"));
    if (end_) {
      if (at_ == buffer_.size()) return std::nullopt;
      std::string line = buffer_.substr(at_);
      at_ = buffer_.size();
      return line;
    }
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    std::array<char, 65536> piece;
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR && interrupted() == 0) continue;
    if (interrupted() != 0) return std::nullopt;
    if (got < 0) {
      return fail(std::string("standard input: cannot be read: ") + std::strerror(errno));
    }
    end_ = got == 0;
    buffer_.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace verbena::store_cli
