// SPDX-License-Identifier: Apache-2.0
// The lock of a directory: one process that writes, or several that read. It is a kernel lock,
// which is released when the process ends for any reason.
//
// Whoever writes notes in the file who it is: its process id on the first line, and, if it is a
// server, "server HOST:PORT" on the second. What is there may be out of date; the lock itself says
// whether it is.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "store/error.h"

namespace verbena::store {

class FolderLock {
 public:
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock();
  enum class Mode : uint8_t { kRead, kWrite };
  // kInUse, with the owner's process id in `what` as far as it is known, and how to reach it if it
  // is a server.
  [[nodiscard]] static Result<FolderLock> take(const std::string& folder, Mode mode);
  // Of a writer: it serves the store at this address, "HOST:PORT", until the lock is released.
  [[nodiscard]] Result<void> announce(const std::string& server);

 private:
  explicit FolderLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
  bool announced_ = false;
};

// Readers that come one after another, each while the one before is still there, would keep a
// writer out for ever. So who waits to write holds the gate, and who wants to read looks whether
// somebody does. It is a lock on the directory itself, and where that cannot be locked there is
// none: it is for fairness only.
class WriterGate {
 public:
  // Tried again until it is held; held until this is gone.
  void try_hold(const std::string& folder);
  // Whether somebody else holds it.
  [[nodiscard]] static bool held(const std::string& folder);

 private:
  UniqueFd folder_;  // locked
};

}  // namespace verbena::store
