// SPDX-License-Identifier: Apache-2.0
// verbena-demo as a user starts it.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::demo {
namespace {

struct Outcome {
  int status = -1;
  std::string text;  // standard output and standard error
};

// AddressSanitizer's search for leaks takes seconds on some machines: only where it may find some.
enum class Leaks : bool { kIgnored, kFound };

[[nodiscard]] Outcome run(const std::string& arguments, Leaks leaks = Leaks::kIgnored) {
  Outcome outcome;
  std::string command = leaks == Leaks::kFound ? "" : "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 ";
  command.append(VERBENA_DEMO);
  command.append(" ").append(arguments).append(" 2>&1");
  std::FILE* const pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

class Program : public ::testing::Test {
 protected:
  ~Program() override { std::filesystem::remove(pcap_); }
  std::string pcap_ = (std::filesystem::temp_directory_path() /
                       ("verbena-program-test-" + std::to_string(::getpid()) + ".pcap"))
                          .string();
};

TEST_F(Program, ShowsATable) {
  const Outcome outcome = run("--burst-ms 5 --pcap " + pcap_, Leaks::kFound);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const char* const word : {"RC SEND", "RC READ", "UD SEND", "messages/s", "tshark -r"}) {
    EXPECT_NE(outcome.text.find(word), std::string::npos) << word << "\n" << outcome.text;
  }
  EXPECT_GT(std::filesystem::file_size(pcap_), 100'000u);
}

TEST_F(Program, TellsTheSimulatedRun) {
  const Outcome outcome = run("--simulated --pcap " + pcap_, Leaks::kFound);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("lost on the way"), std::string::npos) << outcome.text;
  EXPECT_GT(std::filesystem::file_size(pcap_), 1'000u);
}

TEST_F(Program, PrintsTheLimits) {
  const Outcome table = run("--limits");
  EXPECT_EQ(table.status, 0);
  EXPECT_TRUE(table.text.starts_with("max_qp ")) << table.text;
  const Outcome json = run("--limits --json");
  EXPECT_EQ(json.status, 0);
  EXPECT_NE(json.text.find("\"max_qp\": "), std::string::npos) << json.text;
}

TEST_F(Program, RefusesAWrongOption) {
  const Outcome outcome = run("--loud");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text.find("'--loud'"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("--help"), std::string::npos) << outcome.text;
}

}  // namespace
}  // namespace verbena::demo
