// SPDX-License-Identifier: Apache-2.0
// The system calls that a directory tier makes, so that tests can make each of them fail, be short,
// be slow or be the last one (faulty_files.h). Each does one call and returns what it returned, or
// the negative errno. For any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace verbena::backend {

class Files {
 public:
  Files() = default;
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  virtual ~Files() = default;

  // openat(), closed on exec, never through a symbolic link in the last component. `name` is one
  // component: who walks component by component follows no link at all.
  [[nodiscard]] virtual int open(int folder, const std::string& name, int flags, mode_t mode = 0);
  [[nodiscard]] virtual int make_folder(int folder, const std::string& name);
  [[nodiscard]] virtual int rename(int from, const std::string& old_name, int to,
                                   const std::string& new_name, unsigned flags);
  [[nodiscard]] virtual int unlink(int folder, const std::string& name);
  [[nodiscard]] virtual int remove_folder(int folder, const std::string& name);

  [[nodiscard]] virtual ssize_t read(int fd, std::span<const iovec> to, uint64_t offset);
  [[nodiscard]] virtual ssize_t write(int fd, std::span<const iovec> from, uint64_t offset);
  // The same range of another file.
  [[nodiscard]] virtual ssize_t copy(int from, int to, uint64_t offset, size_t bytes);
  // All of another file, which shares its blocks from then on.
  [[nodiscard]] virtual int clone(int from, int to);
  [[nodiscard]] virtual int punch(int fd, uint64_t offset, uint64_t bytes);
  [[nodiscard]] virtual int truncate(int fd, uint64_t bytes);
  [[nodiscard]] virtual int set_mode(int fd, mode_t mode);
  [[nodiscard]] virtual int set_owner(int fd, uid_t user, gid_t group);
  [[nodiscard]] virtual int set_modified(int fd, int64_t ns);
  [[nodiscard]] virtual int sync(int fd);
  // What will be synced, and what will be read: the disk may begin. Nothing relies on it, so that
  // errors are not looked at; a sync or a read finds them.
  virtual void begin_sync(int fd, uint64_t offset, uint64_t bytes);
  virtual void begin_read(int fd, uint64_t offset, uint64_t bytes);

  // Of the file itself, also if it is a symbolic link.
  [[nodiscard]] virtual int status(int folder, const std::string& name, struct stat& status);
  [[nodiscard]] virtual int status(int fd, struct stat& status);
};

// The system's.
[[nodiscard]] Files& system_files();

}  // namespace verbena::backend
