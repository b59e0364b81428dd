// SPDX-License-Identifier: Apache-2.0
#include "cli/choices.h"

#include <gtest/gtest.h>

#include "cli/env.h"

namespace verbena::cli {
namespace {

TEST(Choices, TravelAsVariables) {
  Environment to{{"VERBENA_MTU", "512"}, {"HOME", "/h"}};
  Choices choices;
  choices.name = "own";
  choices.addresses = {"eth0", "10.0.0.0/8,lo"};
  ASSERT_TRUE(set_variables(choices, to));
  EXPECT_EQ(to, (Environment{{"HOME", "/h"},
                             {"VERBENA_ADDRESSES", "eth0,10.0.0.0/8,lo"},
                             {"VERBENA_DEVICE", "own"},
                             {"VERBENA_MTU", "512"}}));
}

TEST(Choices, AreRefusedInTheWordsInWhichTheyCame) {
  Choices choices;
  choices.mtu = "5";
  Environment to;
  EXPECT_TRUE(set_variables(choices, to).error().starts_with("--mtu is '5'"));
  Environment had{{"VERBENA_MTU", "5"}};
  EXPECT_TRUE(set_variables({}, had).error().starts_with("VERBENA_MTU is '5'"));
}

TEST(Choices, PutTheLibrariesFirstAndOnce) {
  Environment in{{"LD_LIBRARY_PATH", "/a"}, {"LD_PRELOAD", "/b.so"}};
  use_libraries("/v", View::kPreload, in);
  const Environment once = in;
  EXPECT_EQ(in["LD_LIBRARY_PATH"], "/v:/a");
  EXPECT_EQ(in["LD_PRELOAD"], "/v/libverbena-paths.so:/b.so");
  EXPECT_EQ(in["ASAN_OPTIONS"], "verify_asan_link_order=0");
  use_libraries("/v", View::kPreload, in);
  EXPECT_EQ(in, once);
}

TEST(Choices, RsocketsArePreloadedByTheirName) {
  Choices choices;
  choices.rsockets = true;
  Environment in{{"LD_PRELOAD", "/b.so"}};
  ASSERT_TRUE(set_variables(choices, in));
  ASSERT_TRUE(set_variables(choices, in));
  EXPECT_EQ(in["LD_PRELOAD"], "librspreload.so:/b.so");
}

TEST(Choices, PreloadNothingForOtherViews) {
  Environment in;
  use_libraries("/v", View::kNamespace, in);
  EXPECT_EQ(in, (Environment{{"LD_LIBRARY_PATH", "/v"}}));
}

TEST(Env, QuotesForEachShell) {
  const Environment before{{"SAME", "x"}};
  const Environment after{{"NEW", R"(it's a \ and !)"}, {"SAME", "x"}};
  EXPECT_EQ(assignments(before, after, Shell::kPosix), "export NEW='it'\\''s a \\ and !'\n");
  EXPECT_EQ(assignments(before, after, Shell::kFish), "set -gx NEW 'it\\'s a \\\\ and !'\n");
  EXPECT_EQ(assignments(before, after, Shell::kCsh), "setenv NEW 'it'\\''s a \\ and \\!';\n");
}

}  // namespace
}  // namespace verbena::cli
