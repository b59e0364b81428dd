// SPDX-License-Identifier: Apache-2.0
#include "device/notices.h"

#include <string>

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

using Kind = Notices::Kind;

[[nodiscard]] std::string_view line_of(const Notices::Lines& lines, Kind kind) {
  return lines[static_cast<size_t>(kind)].view();
}

// Once in a process for each kind, however many devices it opens.
TEST(Notices, AreSaidOnce) {
  Notices first;
  Notices later;
  Notices quiet(true);
  EXPECT_FALSE(quiet.wants(Kind::kPacketsDropped));
  quiet.say(Kind::kPacketsDropped, "nothing");
  EXPECT_FALSE(quiet.pending());
  EXPECT_TRUE(first.wants(Kind::kPacketsDropped));
  first.say(Kind::kPacketsDropped, "%d packets", 7);
  first.say(Kind::kPacketsDropped, "%d packets", 8);
  first.say(Kind::kCompletionsLost, "%s", std::string(1000, 'x').c_str());
  later.say(Kind::kCompletionsLost, "completions");
  EXPECT_FALSE(later.wants(Kind::kCompletionsLost));
  EXPECT_FALSE(later.pending());
  ASSERT_TRUE(first.pending());
  const auto lines = first.take();
  EXPECT_EQ(line_of(lines, Kind::kPacketsDropped),
            "verbena: 7 packets (VERBENA_QUIET=1 turns this off)\n");
  const auto cut = line_of(lines, Kind::kCompletionsLost);
  EXPECT_TRUE(cut.starts_with("verbena: xxx") && cut.ends_with("off)\n")) << "cut, and one line";
  EXPECT_TRUE(line_of(lines, Kind::kSilentError).empty());
  EXPECT_FALSE(first.pending());
}

}  // namespace
}  // namespace verbena::device
