// SPDX-License-Identifier: Apache-2.0
#include "demo/story.h"

#include <gtest/gtest.h>

#include "link/framing.h"
#include "wire/pcap.h"

namespace verbena::demo {
namespace {

TEST(Story, EndsWellForManySeedsAndTellsOfEveryMishap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const StoryResult story = tell_story({.seed = seed});
    ASSERT_TRUE(story.good) << "seed " << seed << "\n" << story.text;
    for (const char* const word :
         {"lost on the way", "delivered twice", "one bit flipped", "held back", "holds 2"}) {
      ASSERT_NE(story.text.find(word), std::string::npos)
          << "seed " << seed << ": nothing of " << word;
    }
  }
}

TEST(Story, OneSeedIsOneStory) {
  EXPECT_EQ(tell_story({.seed = 7}).capture, tell_story({.seed = 7}).capture);
  EXPECT_NE(tell_story({.seed = 7}).capture, tell_story({.seed = 8}).capture);
}

TEST(Story, CaptureHoldsGoodFramesAndTheCorruptedOne) {
  const StoryResult story = tell_story({.seed = 1});
  auto reader = wire::PcapReader::open(story.capture);
  ASSERT_TRUE(reader);
  uint32_t good = 0;
  uint32_t bad_icrc = 0;
  for (;;) {
    const auto record = reader->next();
    ASSERT_TRUE(record);
    if (!record->has_value()) break;
    const auto packet = link::open_frame((*record)->frame);
    if (packet) {
      ++good;
    } else {
      ASSERT_EQ(packet.error(), link::FrameError::kBadIcrc);
      ++bad_icrc;
    }
  }
  EXPECT_GT(good, 20u);
  EXPECT_EQ(bad_icrc, 1u);
}

}  // namespace
}  // namespace verbena::demo
