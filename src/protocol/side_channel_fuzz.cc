// SPDX-License-Identifier: Apache-2.0
// Any bytes as a side channel's stream, in pieces of the length that the first byte says: the
// frames do not depend on the pieces, and what decodes encodes to the same bytes.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "protocol/side_channel.h"

namespace verbena::protocol {
namespace {

using Frames = std::vector<std::vector<uint8_t>>;

[[nodiscard]] Frames frames_of(std::span<const uint8_t> stream, size_t piece) {
  Frames frames;
  FrameReader reader;
  while (!stream.empty()) {
    auto bytes = stream.first(std::min(piece, stream.size()));
    stream = stream.subspan(bytes.size());
    while (!bytes.empty()) {
      const auto frame = reader.next(bytes);
      VERBENA_CHECK(reader.buffered() <= kFrameHeadBytes + kMaxFrameBytes);
      if (!frame) return frames;
      if (!frame->empty()) frames.emplace_back(frame->begin(), frame->end());
    }
  }
  return frames;
}

void take_frame(std::span<const uint8_t> frame) {
  const auto message = decode_frame(frame);
  if (!message) {
    VERBENA_CHECK(text_of(message.error()) != std::string_view("unknown"));
    return;
  }
  const auto again = frame_of(*message);
  VERBENA_CHECK(std::ranges::equal(std::span(again).subspan(kFrameHeadBytes), frame));
}

}  // namespace
}  // namespace verbena::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::protocol;
  if (size == 0) return 0;
  const std::span<const uint8_t> stream(data + 1, size - 1);
  const Frames frames = frames_of(stream, size);
  VERBENA_CHECK(frames_of(stream, size_t{data[0]} + 1) == frames);
  for (const auto& frame : frames) take_frame(frame);
  return 0;
}
