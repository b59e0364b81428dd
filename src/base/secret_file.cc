// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena {

Result<SecretFile, std::string> read_secret(const std::string& path, SecretSource source) {
  constexpr size_t kLongest = 4096;
  const auto wrong = [&](const char* why) {
    return fail(path + ": cannot be used as a secret: " + why);
  };
  const int patience = source == SecretSource::kFile ? O_NONBLOCK | O_NOCTTY : 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | patience));
  struct stat status{};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return wrong(std::strerror(errno));
  if (source == SecretSource::kFile && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    return wrong("it is not a file that can be read again");
  }
  SecretFile file;
  // One more than may be, and a newline.
  file.secret.resize(kLongest + 2);
  size_t filled = 0;
  while (filled < file.secret.size()) {
    const ssize_t got = ::read(fd.get(), file.secret.data() + filled, file.secret.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(std::strerror(errno));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  file.secret.resize(filled);
  if (file.secret.ends_with('\n')) file.secret.pop_back();
  if (file.secret.empty()) return wrong("it is empty");
  if (file.secret.size() > kLongest) return wrong("it has more than 4096 bytes");
  // Of a pipe they say nothing.
  file.exposed = S_ISREG(status.st_mode) && (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
  return file;
}

}  // namespace verbena
