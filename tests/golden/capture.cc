// SPDX-License-Identifier: Apache-2.0
#include "golden/capture.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "wire/pcap.h"

namespace verbena::golden {

Result<Capture, std::string> load_capture(const std::filesystem::path& path) {
  Capture capture;
  capture.name = path.stem().string();
  capture.path = path;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(std::string("cannot be opened: ") + std::strerror(errno));
  capture.file.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (in.bad()) return fail(std::string("cannot be read: ") + std::strerror(errno));

  auto reader = wire::PcapReader::open(capture.file);
  if (!reader) return fail(std::string(to_string(reader.error())));
  for (;;) {
    const auto record = reader->next();
    if (!record) return fail(std::string(to_string(record.error())));
    if (!record->has_value()) return capture;
    const wire::PcapRecord& r = **record;
    capture.frames.push_back({capture.frames.size() + 1, r.time, r.frame, r.original_bytes});
  }
}

}  // namespace verbena::golden
