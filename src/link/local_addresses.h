// SPDX-License-Identifier: Apache-2.0
// Which addresses are this host's (network namespace's), kept current by the kernel's notices.
#pragma once

#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "wire/gid.h"

namespace verbena::link {

class LocalAddresses {
 public:
  LocalAddresses();

  // 127.0.0.0/8 and ::1 always are. The last answer is remembered: a stream to one destination
  // costs a compare.
  [[nodiscard]] bool contains(const wire::Gid& address) {
    if (address == last_) return last_is_local_;
    return look_up(address);
  }
  // The same, of what somebody else knows already, before on_ready() was called.
  [[nodiscard]] bool contains_by_now(const wire::Gid& address);
  // Readable when addresses may have changed; -1 where the kernel gives no notices.
  [[nodiscard]] int fd() const { return notices_.get(); }
  void on_ready();
  [[nodiscard]] std::span<const wire::Gid> all() const { return addresses_; }
  // Rises when addresses or interfaces may have changed.
  [[nodiscard]] uint32_t changes() const { return notices_read_; }
  void abandon() { notices_.reset(); }

 private:
  [[nodiscard]] bool look_up(const wire::Gid& address);
  void refresh();

  UniqueFd notices_;
  std::vector<wire::Gid> addresses_;  // sorted
  wire::Gid last_;
  bool last_is_local_ = false;
  bool outdated_ = false;  // the system did not tell
  uint32_t notices_read_ = 0;
};

}  // namespace verbena::link
