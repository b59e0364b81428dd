// SPDX-License-Identifier: Apache-2.0
// A capture file in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace verbena::golden {

struct CapturedFrame {
  size_t number = 0;  // from 1, as Wireshark counts
  Time time = 0;
  std::span<const uint8_t> bytes;  // into Capture::file
  uint32_t original_bytes = 0;     // more than bytes.size() where the capture cut the frame
};

struct Capture {
  std::string name;  // the file's, without .pcap
  std::filesystem::path path;
  std::vector<uint8_t> file;
  std::vector<CapturedFrame> frames;

  Capture() = default;
  Capture(const Capture&) = delete;  // the frames point into the file
  Capture& operator=(const Capture&) = delete;
  Capture(Capture&&) = default;
  Capture& operator=(Capture&&) = default;

  // One frame of it was made wrong on the way, before or behind the point of capture.
  [[nodiscard]] bool has_corrupt_frame() const { return name.starts_with("corrupt-icrc"); }
};

// The capture, or what is wrong with the file.
[[nodiscard]] Result<Capture, std::string> load_capture(const std::filesystem::path& path);

}  // namespace verbena::golden
