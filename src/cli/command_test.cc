// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

struct Given {
  bool quiet = false;
  bool force = false;
  std::string size;
  double seconds = 0;
  std::vector<std::string> folders;
  std::string first;
  std::string second;
  std::vector<std::string> rest;
  std::vector<std::string> program;
};

[[nodiscard]] Command with_options(Given& given) {
  Command command("try", "Tries it.\n\nMore about it.\n");
  command.flag("-q,--quiet", given.quiet, "says nothing")
      .flag("-f,--force", given.force, "anyhow")
      .option("--size", given.size, "SIZE", "how large")
      .option("--wait", given.seconds, "SECONDS", "how long")
      .list("-d,--data", given.folders, "DIR", "where");
  return command;
}

using Words = std::vector<std::string>;

[[nodiscard]] std::string problem_with(Command command, const Words& words) {
  const auto parsed = command.parse(words);
  return parsed ? "" : parsed.error();
}

TEST(Command, TakesOptionsInEveryForm) {
  Given given;
  Command command = with_options(given);
  command.word("FIRST", given.first, "a word").words("REST", "REST...", given.rest, "more");
  ASSERT_TRUE(command.parse(Words{"--size", "-4", "a", "-qf", "--wait=2.5", "-d", "x", "-dy", "-",
                                  "--data=", "--", "--size", "[b,c]"}));
  EXPECT_TRUE(given.quiet && given.force);
  EXPECT_EQ(given.size, "-4");
  EXPECT_EQ(given.seconds, 2.5);
  EXPECT_EQ(given.folders, (Words{"x", "y", ""}));
  EXPECT_EQ(given.first, "a");
  EXPECT_EQ(given.rest, (Words{"-", "--size", "[b,c]"}));
}

TEST(Command, SaysWhatIsWrong) {
  Given given;
  Command command = with_options(given);
  command.word("FIRST", given.first, "a word").optional_word("SECOND", given.second, "another");
  command.exclude("--quiet", "--force");
  EXPECT_EQ(problem_with(command, {}), "FIRST is missing");
  EXPECT_EQ(problem_with(command, {"a", "b", "c"}), "unexpected argument 'c'");
  EXPECT_EQ(problem_with(command, {"a", "--siz", "3"}), "unknown option --siz");
  EXPECT_EQ(problem_with(command, {"a", "-qx"}), "unknown option -x");
  EXPECT_EQ(problem_with(command, {"a", "--size"}), "--size needs a value: SIZE");
  EXPECT_EQ(problem_with(command, {"a", "-d"}), "-d needs a value: DIR");
  EXPECT_EQ(problem_with(command, {"a", "--quiet=yes"}), "--quiet takes no value");
  EXPECT_EQ(problem_with(command, {"a", "--size=1", "--size=2"}), "--size is given twice");
  EXPECT_EQ(problem_with(command, {"a", "--wait", "1s"}), "--wait is '1s', which is not a number");
  EXPECT_EQ(problem_with(command, {"a", "-qf"}), "--quiet and --force cannot be used together");
  EXPECT_EQ(problem_with(command, {"a", "-qq"}), "");
}

TEST(Command, SaysWhyAnOptionOfOthersIsRefused) {
  Given given;
  Command command = with_options(given);
  command.refuse("-s,--server", "HOST", "only others have a server");
  for (const Words& words :
       {Words{"--server", "a"}, Words{"--server=a"}, Words{"-s", "a"}, Words{"-qsa"}}) {
    EXPECT_EQ(problem_with(command, words), "--server: only others have a server");
  }
  EXPECT_EQ(command.help().find("--server"), std::string::npos);
}

TEST(Command, LeavesAProgramsWordsAlone) {
  for (const Words& words : {Words{"-q", "prog", "--size", "--", "-q"},
                             Words{"-q", "--", "prog", "--size", "--", "-q"}}) {
    Given given;
    Command command = with_options(given);
    command.program("-- PROGRAM", given.program);
    ASSERT_TRUE(command.parse(words));
    EXPECT_EQ(given.program, (Words{"prog", "--size", "--", "-q"}));
    EXPECT_EQ(given.size, "");
  }
}

TEST(Command, TakesItsOwnWordsBeforeAProgram) {
  for (const Words& words :
       {Words{"a", "-q", "prog", "-f"}, Words{"-q", "a", "--", "prog", "-f"}}) {
    Given given;
    Command command = with_options(given);
    command.word("FIRST", given.first, "a word").program("[-- PROGRAM]", given.program);
    ASSERT_TRUE(command.parse(words));
    EXPECT_EQ(given.first, "a");
    EXPECT_EQ(given.program, (Words{"prog", "-f"}));
    EXPECT_TRUE(given.quiet && !given.force);
  }
  Given given;
  Command command = with_options(given);
  command.word("FIRST", given.first, "a word").program("[-- PROGRAM]", given.program);
  EXPECT_EQ(problem_with(command, {"--", "prog"}), "FIRST is missing");
  EXPECT_EQ(problem_with(command, {"a"}), "");
}

TEST(Command, KnowsWhenHelpIsWanted) {
  Given given;
  Command command = with_options(given);
  command.program("-- PROGRAM", given.program);
  const auto helps = [&](const Words& words) {
    const auto parsed = command.parse(words);
    return parsed && *parsed == Command::Parsed::kHelpWanted;
  };
  EXPECT_TRUE(helps({"--help"}));
  EXPECT_TRUE(helps({"-d", "x", "-h"}));
  EXPECT_FALSE(helps({"-d", "--help"}));
  EXPECT_FALSE(helps({"prog", "--help"}));
  EXPECT_EQ(command.summary(), "Tries it.");
  EXPECT_NE(command.help().find("Usage: verbena try [OPTIONS] -- PROGRAM\n"), std::string::npos);
  EXPECT_NE(command.help().find("\n  -d,--data DIR   where\n"), std::string::npos);
}

}  // namespace
}  // namespace verbena::cli
