// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/options.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::emulated {
namespace {

[[nodiscard]] std::string problem_with(std::vector<std::string> words, Options& options) {
  words.insert(words.begin(), "emulated_link");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  std::string problem;
  const bool good = parse(static_cast<int>(argv.size()), argv.data(), options, problem);
  EXPECT_EQ(good, problem.empty());
  return problem;
}

TEST(LinkOptions, AllAreRead) {
  Options options;
  EXPECT_EQ(problem_with({"--rate",       "2.5G",  "--delay",    "50us", "--queue",   "125000",
                          "--mark",       "30000", "--loss",     "0.1",  "--reorder", "1%",
                          "--reorder-by", "2ms",   "--jitter",   "1ms",  "--mtu",     "9000",
                          "--seed",       "9",     "--run-time", "20s",  "--carries", "1400",
                          "--tells",      "1"},
                         options),
            "");
  EXPECT_EQ(options.impairments.rate_bps, 2'500'000'000u);
  EXPECT_EQ(options.impairments.delay, 50 * kMicrosecond);
  EXPECT_EQ(options.impairments.queue_bytes, 125'000u);
  EXPECT_EQ(options.impairments.mark_bytes, 30'000u);
  EXPECT_EQ(options.impairments.loss_ppm, 1'000u);
  EXPECT_EQ(options.impairments.reorder_ppm, 10'000u);
  EXPECT_EQ(options.impairments.reorder_by, 2 * kMillisecond);
  EXPECT_EQ(options.impairments.jitter, kMillisecond);
  EXPECT_EQ(options.mtu_bytes, 9'000u);
  EXPECT_EQ(options.impairments.carried_bytes, 1'400u);
  EXPECT_TRUE(options.impairments.tells);
  EXPECT_EQ(options.seed, 9u);
  EXPECT_EQ(options.run_time, 20 * kSecond);
}

TEST(LinkOptions, WrongOnesAreNamed) {
  Options options;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--rate", "1X"},
                                             {"--delay", "5"},
                                             {"--loss", "101"},
                                             {"--loss", "-1"},
                                             {"--queue", ""},
                                             {"--mtu", "9001"},
                                             {"--mtu", "576"},
                                             {"--tells", "2"},
                                             {"--speed", "1"},
                                             {"--rate"}}) {
    EXPECT_NE(problem_with(words, options).find(words[0]), std::string::npos) << words[0];
  }
}

}  // namespace
}  // namespace verbena::emulated
