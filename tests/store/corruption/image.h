// SPDX-License-Identifier: Apache-2.0
// The files of a store on one medium, as bytes: chunk n of the store is the n-th of all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/chunk.h"

namespace verbena::store::trial {

struct FilesImage {
  std::vector<uint8_t> bytes;   // one file behind the other
  std::vector<uint64_t> files;  // how long each is; kMissing: not there, nor are its bytes
  static constexpr uint64_t kMissing = UINT64_MAX;

  [[nodiscard]] uint64_t chunks() const { return bytes.size() / kChunkBytes; }
  [[nodiscard]] std::span<uint8_t, kChunkBytes> chunk(uint64_t number) {
    return std::span<uint8_t, kChunkBytes>(bytes.data() + number * kChunkBytes, kChunkBytes);
  }
  [[nodiscard]] std::span<const uint8_t, kChunkBytes> chunk(uint64_t number) const {
    return std::span<const uint8_t, kChunkBytes>(bytes.data() + number * kChunkBytes, kChunkBytes);
  }
  [[nodiscard]] bool same_chunk(const FilesImage& other, uint64_t number) const;
  // The last file becomes shorter, or a file goes, with its bytes.
  void cut_last(uint64_t by);
  void lose(size_t file);
};

[[nodiscard]] FilesImage read_files(const std::string& folder);
// The folder has these files and no others.
void write_files(const FilesImage& image, const std::string& folder);

}  // namespace verbena::store::trial
