// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/unique_fd.h"

namespace verbena::store::trial {
namespace {

std::string name_of(const std::string& folder, size_t file) {
  return fmt::format("{}/blocks.0of1.{:03}", folder, file);
}

}  // namespace

bool FilesImage::same_chunk(const FilesImage& other, uint64_t number) const {
  return std::memcmp(chunk(number).data(), other.chunk(number).data(), kChunkBytes) == 0;
}

void FilesImage::cut_last(uint64_t by) {
  files.back() -= by;
  bytes.resize(bytes.size() - by);
}

void FilesImage::lose(size_t file) {
  uint64_t begin = 0;
  for (size_t i = 0; i < file; ++i) begin += files[i];
  bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(begin),
              bytes.begin() + static_cast<ptrdiff_t>(begin + files[file]));
  files[file] = kMissing;
}

FilesImage read_files(const std::string& folder) {
  FilesImage image;
  for (size_t i = 0;; ++i) {
    const UniqueFd file(::open(name_of(folder, i).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return image;
    struct stat facts{};
    VERBENA_CHECK(::fstat(file.get(), &facts) == 0);
    const auto length = static_cast<uint64_t>(facts.st_size);
    const size_t before = image.bytes.size();
    image.bytes.resize(before + length);
    const ssize_t got = ::pread(file.get(), image.bytes.data() + before, length, 0);
    VERBENA_CHECK(got == facts.st_size);
    image.files.push_back(length);
  }
}

void write_files(const FilesImage& image, const std::string& folder) {
  std::filesystem::create_directories(folder);
  const uint8_t* from = image.bytes.data();
  for (size_t i = 0; i < image.files.size(); ++i) {
    const std::string name = name_of(folder, i);
    if (image.files[i] == FilesImage::kMissing) {
      std::filesystem::remove(name);
      continue;
    }
    const UniqueFd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    VERBENA_CHECK(file.valid() && ::ftruncate(file.get(), static_cast<off_t>(image.files[i])) == 0);
    const ssize_t put = ::pwrite(file.get(), from, image.files[i], 0);
    VERBENA_CHECK(put == static_cast<ssize_t>(image.files[i]));
    from += image.files[i];
  }
  for (size_t i = image.files.size(); std::filesystem::remove(name_of(folder, i)); ++i) continue;
}

}  // namespace verbena::store::trial
