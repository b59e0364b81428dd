// SPDX-License-Identifier: Apache-2.0
#include "demo/options.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbena::demo {
namespace {

using Arguments = std::vector<const char*>;

TEST(Options, AreTheLiveRunUnlessToldOtherwise) {
  const auto options = parse_options(Arguments{});
  ASSERT_TRUE(options);
  EXPECT_FALSE(options->simulated || options->json || options->ipv6 || options->help);
  EXPECT_EQ(options->pcap, "verbena-demo.pcap");
}

TEST(Options, AreTaken) {
  const auto options = parse_options(
      Arguments{"--ipv6", "--json", "--seed", "7", "--burst-ms", "0", "--pcap", "x.pcap"});
  ASSERT_TRUE(options) << options.error();
  EXPECT_TRUE(options->ipv6 && options->json);
  EXPECT_EQ(options->seed, 7u);
  EXPECT_EQ(options->burst.count(), 0);
  EXPECT_EQ(options->pcap, "x.pcap");
}

TEST(Options, LimitsAreForAPersonOrAScript) {
  const auto limits = parse_options(Arguments{"--limits"});
  ASSERT_TRUE(limits) << limits.error();
  EXPECT_TRUE(limits->limits && !limits->json);
  const auto json = parse_options(Arguments{"--json", "--limits"});
  ASSERT_TRUE(json) << json.error();
  EXPECT_TRUE(json->limits && json->json);
}

TEST(Options, AreRefusedByName) {
  const std::vector<Arguments> wrong{{"--loud"},
                                     {"--seed"},
                                     {"--seed", "x"},
                                     {"--seed", "-1"},
                                     {"--seed", "1x"},
                                     {"--burst-ms", "10001"},
                                     {"--pcap"},
                                     {"--simulated", "--json"},
                                     {"--limits", "--simulated"},
                                     {"--limits", "--seed", "1"}};
  for (const Arguments& arguments : wrong) {
    const auto options = parse_options(arguments);
    ASSERT_FALSE(options) << arguments[0];
    EXPECT_NE(options.error().find(arguments[0]), std::string::npos) << options.error();
  }
}

}  // namespace
}  // namespace verbena::demo
