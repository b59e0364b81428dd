// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "cli/elf_file.h"

namespace verbena::cli {
namespace {

[[nodiscard]] bool is_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

[[nodiscard]] NoProgram cannot_run(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    const int status_code = errno == ENOENT || errno == ENOTDIR ? kNotFound : kNotExecutable;
    return {status_code, path + ": " + std::strerror(errno)};
  }
  if (S_ISDIR(status.st_mode)) return {kNotExecutable, path + " is a directory"};
  return {kNotExecutable, path + " is not executable (" + std::strerror(EACCES) + ")"};
}

// "#!/bin/sh -e": the first word; empty if the file is no script.
[[nodiscard]] std::string interpreter_of(const std::string& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> start{};
  const ssize_t got = fd.valid() ? ::read(fd.get(), start.data(), start.size() - 1) : 0;
  std::string_view line(start.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (!line.starts_with("#!")) return "";
  line = line.substr(0, line.find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of(" \t", 2), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

// The dynamic loader then ignores what the environment says about libraries.
[[nodiscard]] std::string raised_privileges(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return "";
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) return "setuid";
  constexpr mode_t kSetGid = S_ISGID | S_IXGRP;  // without the second it is a lock, not a privilege
  if ((status.st_mode & kSetGid) == kSetGid && status.st_gid != ::getgid()) return "setgid";
  if (::getuid() != 0 && ::getxattr(file.c_str(), "security.capability", nullptr, 0) > 0) {
    return "given capabilities";
  }
  return "";
}

}  // namespace

Result<std::string, NoProgram> find_program(const std::string& name, std::string_view path) {
  if (name.empty()) return fail(NoProgram{kNotFound, "the program name is empty"});
  if (name.find('/') != std::string::npos) {
    if (is_file(name) && ::access(name.c_str(), X_OK) == 0) return name;
    return fail(cannot_run(name));
  }
  std::string not_executable;
  for (;;) {
    const size_t colon = std::min(path.find(':'), path.size());
    const std::string directory(path.substr(0, colon));
    std::string candidate = (directory.empty() ? "." : directory) + '/' + name;
    if (is_file(candidate)) {
      if (::access(candidate.c_str(), X_OK) == 0) return candidate;
      if (not_executable.empty()) not_executable = candidate;
    }
    if (colon == path.size()) break;
    path.remove_prefix(colon + 1);
  }
  if (!not_executable.empty()) return fail(cannot_run(not_executable));
  return fail(NoProgram{kNotFound, name + " is not in any directory of PATH"});
}

std::vector<std::string> obstacles(const std::string& file) {
  if (const std::string interpreter = interpreter_of(file); !interpreter.empty()) {
    // Scripts of scripts are rare; what runs is seen at the first.
    return interpreter_of(interpreter).empty() ? obstacles(interpreter)
                                               : std::vector<std::string>{};
  }
  std::vector<std::string> found;
  if (const std::string how = raised_privileges(file); !how.empty()) {
    found.push_back(file + " is " + how + ": the system ignores LD_LIBRARY_PATH for such programs");
  }
  const auto elf = read_elf(file);
  if (!elf) return found;
  if (!elf->for_this_machine) {
    found.push_back(file + " is built for another architecture than Verbena's libraries");
  } else if (!elf->dynamic) {
    found.push_back(file + " is statically linked: its libraries cannot be replaced");
  } else if (elf->loader.find("/ld-musl-") != std::string::npos) {
    found.push_back(file + " is linked with musl (" + elf->loader +
                    "), and Verbena's libraries with glibc: it cannot load them. Run a build of it"
                    " for glibc");
  }
  for (const std::string& directory : elf->rpath) {
    if (is_file(directory + "/libibverbs.so.1")) {
      std::string what = file;
      what.append(" has its own libibverbs in ").append(directory);
      found.push_back(std::move(what.append(" (RPATH), which has precedence")));
    }
  }
  // iproute2's: nothing of it goes through libibverbs or /sys.
  if (file.ends_with("/rdma")) {
    found.push_back(file +
                    " asks the kernel for RDMA devices by netlink and sees those of the host alone;"
                    " `verbena devices` shows Verbena's");
  }
  return found;
}

}  // namespace verbena::cli
