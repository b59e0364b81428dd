// SPDX-License-Identifier: Apache-2.0
#include "cli/literal_words.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

TEST(LiteralWords, ReachTheCommandAsTheyWere) {
  const std::vector<std::string> words{"[a,b]", "[a]", "[]", "[",  "a",  "",   "[[x]]",   "\x01[a]",
                                       "\x01",  "a,b", "%",  "{}", "[a", "a]", "'[a,b]'", "1:2"};
  CLI::App app;
  CLI::App* const command = app.add_subcommand("rm");
  std::vector<std::string> got;
  std::vector<std::string> folders;
  command->add_option("OBJECT", got);
  command->add_option("--data", folders)->expected(1)->allow_extra_args(false)->take_all();
  unshield_words(app);
  std::vector<std::string> line{"rm", "--data", shielded("[f,g]"), "--data", shielded("h")};
  for (const std::string& word : words) line.push_back(shielded(word));
  std::ranges::reverse(line);
  app.parse(line);
  EXPECT_EQ(got, words);
  EXPECT_EQ(folders, (std::vector<std::string>{"[f,g]", "h"}));
}

}  // namespace
}  // namespace verbena::cli
