// SPDX-License-Identifier: Apache-2.0
#include "protocol/side_channel.h"

#include <gtest/gtest.h>

#include "base/endian.h"
#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

using testing::Bytes;

Fault frame_fault(std::span<const uint8_t> frame) {
  const auto decoded = decode_frame(frame);
  return decoded ? Fault::kEnd : decoded.error();
}
std::span<const uint8_t> inner(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeadBytes);
}

TEST(SideChannel, FramesThereAndBack) {
  for (const SideMessage& message : testing::all_side_messages()) {
    const Bytes frame = frame_of(message);
    EXPECT_EQ(load_be16(frame.data()), frame.size() - kFrameHeadBytes);
    const auto decoded = decode_frame(inner(frame));
    ASSERT_TRUE(decoded) << text_of(decoded.error());
    EXPECT_EQ(*decoded, message);
  }
}

TEST(SideChannel, EveryTruncationIsRefused) {
  for (const SideMessage& message : testing::all_side_messages()) {
    Bytes frame = frame_of(message);
    for (size_t size = 0; size + kFrameHeadBytes < frame.size(); ++size) {
      EXPECT_EQ(frame_fault(inner(frame).first(size)), Fault::kShort) << size;
    }
    frame.push_back(0);
    EXPECT_EQ(frame_fault(inner(frame)), Fault::kLong);
  }
}

TEST(SideChannel, ReasonsForRefusal) {
  EXPECT_EQ(frame_fault(Bytes{8}), Fault::kType);
  EXPECT_EQ(frame_fault(Bytes{0}), Fault::kType);
  EXPECT_EQ(frame_fault(inner(frame_of(Hello{.magic = 1}))), Fault::kMagic);
  EXPECT_EQ(frame_fault(inner(frame_of(Hello{.min_version = 2, .max_version = 1}))),
            Fault::kReserved);
  EXPECT_EQ(frame_fault(Bytes{7, 0, 99, 0, 0}), Fault::kReserved);   // no such reason
  EXPECT_EQ(frame_fault(Bytes{7, 0, 0, 0xff, 0xff}), Fault::kText);  // text too long
}

TEST(SideChannel, AStreamIsTakenApartWhereverItIsCut) {
  Bytes stream;
  for (const SideMessage& message : testing::all_side_messages()) append_frame(message, stream);
  for (size_t step = 1; step <= stream.size(); ++step) {
    FrameReader reader;
    std::vector<SideMessage> found;
    Bytes kept;  // views of messages point into frames, so they are compared at once
    for (size_t at = 0; at < stream.size(); at += step) {
      auto bytes =
          std::span<const uint8_t>(stream).subspan(at).first(std::min(step, stream.size() - at));
      while (!bytes.empty()) {
        const auto frame = reader.next(bytes);
        ASSERT_TRUE(frame);
        if (frame->empty()) break;
        const auto message = decode_frame(*frame);
        ASSERT_TRUE(message);
        append_frame(*message, kept);
        EXPECT_LE(reader.buffered(), kFrameHeadBytes + kMaxFrameBytes);
      }
    }
    EXPECT_EQ(kept, stream) << step;
  }
}

TEST(SideChannel, LengthsBeyondBoundsEndTheStream) {
  for (const Bytes& head : {Bytes{0, 0}, Bytes{4, 1}, Bytes{0xff, 0xff}}) {
    FrameReader reader;
    std::span<const uint8_t> bytes = head;
    const auto frame = reader.next(bytes);
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error(), Fault::kLength);
  }
}

TEST(SideChannel, UsableLimits) {
  EXPECT_TRUE(usable(Limits{}));
  const auto with = [](auto change) {
    Limits limits;
    change(limits);
    return usable(limits);
  };
  EXPECT_FALSE(with([](Limits& l) { l.window = 0; }));
  EXPECT_FALSE(with([](Limits& l) { l.segments = 0; }));
  EXPECT_FALSE(with([](Limits& l) { l.segments = 17; }));
  EXPECT_FALSE(with([](Limits& l) { l.result_span = 1; }));
  EXPECT_FALSE(with([](Limits& l) { l.inline_bytes = 100'000; }));
  EXPECT_FALSE(with([](Limits& l) { l.io_bytes = 1; }));
  EXPECT_FALSE(with([](Limits& l) { l.silence_ms = l.keep_alive_ms; }));
}

}  // namespace
}  // namespace verbena::protocol
