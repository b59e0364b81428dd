// SPDX-License-Identifier: Apache-2.0
// For tests: system calls that fail, are short or are observed. `before` is asked before each call
// that reads data, changes something or makes it durable, and answers 0 to let it happen or the
// negative errno that it is to fail with; it may also end the process, wait, or note what is done.
// Set before the files are used, and called by whoever makes the call.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>

#include "backend/files.h"

namespace verbena::backend {

enum class FileCall : uint8_t {
  kCreate,  // open() with O_CREAT
  kMakeFolder,
  kRename,
  kUnlink,
  kRemoveFolder,
  kRead,
  kWrite,
  kCopy,
  kClone,
  kPunch,
  kTruncate,
  kSetMode,
  kSetModified,
  kSync,
};

class FaultyFiles final : public Files {
 public:
  struct Call {
    FileCall call;
    int fd = -1;       // of the file, or of the folder of a name
    std::string name;  // of kRename: the new one
    int from_fd = -1;  // of kRename
    std::string from_name{};
  };
  using Before = std::function<int(const Call& call)>;
  Before before;
  // At most so many bytes are read, written or copied at once; 0: all of them.
  std::function<size_t()> most_bytes;
  // Nothing is made durable: for tests of many operations that do not end the machine.
  bool syncs = true;
  // What will be read, if somebody wants to know.
  std::function<void(uint64_t offset, uint64_t bytes)> at_begin_read;
  // clone() copies all bytes, as if the file system could share them.
  bool clones = false;

  int open(int folder, const std::string& name, int flags, mode_t mode) override {
    if ((flags & O_CREAT) != 0) {
      if (const int error = ask({FileCall::kCreate, folder, name}); error != 0) return error;
    }
    return Files::open(folder, name, flags, mode);
  }
  int make_folder(int folder, const std::string& name) override {
    const int error = ask({FileCall::kMakeFolder, folder, name});
    return error != 0 ? error : Files::make_folder(folder, name);
  }
  int rename(int from, const std::string& old_name, int to, const std::string& new_name,
             unsigned flags) override {
    const int error = ask({FileCall::kRename, to, new_name, from, old_name});
    return error != 0 ? error : Files::rename(from, old_name, to, new_name, flags);
  }
  int unlink(int folder, const std::string& name) override {
    const int error = ask({FileCall::kUnlink, folder, name});
    return error != 0 ? error : Files::unlink(folder, name);
  }
  int remove_folder(int folder, const std::string& name) override {
    const int error = ask({FileCall::kRemoveFolder, folder, name});
    return error != 0 ? error : Files::remove_folder(folder, name);
  }
  ssize_t read(int fd, std::span<const iovec> to, uint64_t offset) override {
    const int error = ask({FileCall::kRead, fd, {}});
    return error != 0 ? error : Files::read(fd, shortened(to), offset);
  }
  ssize_t write(int fd, std::span<const iovec> from, uint64_t offset) override {
    const int error = ask({FileCall::kWrite, fd, {}});
    return error != 0 ? error : Files::write(fd, shortened(from), offset);
  }
  ssize_t copy(int from, int to, uint64_t offset, size_t bytes) override {
    const int error = ask({FileCall::kCopy, to, {}});
    return error != 0 ? error : Files::copy(from, to, offset, std::min(bytes, most()));
  }
  int clone(int from, int to) override {
    if (const int error = ask({FileCall::kClone, to, {}}); error != 0) return error;
    return clones ? copy_all(from, to) : Files::clone(from, to);
  }
  int punch(int fd, uint64_t offset, uint64_t bytes) override {
    const int error = ask({FileCall::kPunch, fd, {}});
    return error != 0 ? error : Files::punch(fd, offset, bytes);
  }
  int truncate(int fd, uint64_t bytes) override {
    const int error = ask({FileCall::kTruncate, fd, {}});
    return error != 0 ? error : Files::truncate(fd, bytes);
  }
  int set_mode(int fd, mode_t mode) override {
    const int error = ask({FileCall::kSetMode, fd, {}});
    return error != 0 ? error : Files::set_mode(fd, mode);
  }
  int set_modified(int fd, int64_t ns) override {
    const int error = ask({FileCall::kSetModified, fd, {}});
    return error != 0 ? error : Files::set_modified(fd, ns);
  }
  int sync(int fd) override {
    const int error = ask({FileCall::kSync, fd, {}});
    return error != 0 || !syncs ? error : Files::sync(fd);
  }
  void begin_read(int fd, uint64_t offset, uint64_t bytes) override {
    if (at_begin_read) at_begin_read(offset, bytes);
    Files::begin_read(fd, offset, bytes);
  }

 private:
  [[nodiscard]] int ask(const Call& call) const { return before ? before(call) : 0; }
  [[nodiscard]] size_t most() const {
    const size_t bytes = most_bytes ? most_bytes() : 0;
    return bytes == 0 ? SIZE_MAX : bytes;
  }
  // Valid until the thread's next call.
  [[nodiscard]] std::span<const iovec> shortened(std::span<const iovec> all) const {
    thread_local std::vector<iovec> some;
    some.clear();
    size_t left = most();
    for (const iovec& one : all) {
      some.push_back({one.iov_base, std::min(one.iov_len, left)});
      left -= some.back().iov_len;
      if (left == 0) break;
    }
    return some;
  }
  static int copy_all(int from, int to) {
    struct stat its{};
    Files files;
    if (const int error = files.status(from, its); error != 0) return error;
    const auto size = static_cast<uint64_t>(its.st_size);
    if (const int error = files.truncate(to, size); error != 0) return error;
    for (uint64_t at = 0; at < size;) {
      const ssize_t done = files.copy(from, to, at, size - at);
      if (done <= 0) return done < 0 ? static_cast<int>(done) : -EIO;
      at += static_cast<uint64_t>(done);
    }
    return 0;
  }
};

}  // namespace verbena::backend
