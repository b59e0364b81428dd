// SPDX-License-Identifier: Apache-2.0
// verbena-demo as a user starts it.
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
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

[[nodiscard]] Outcome run(const std::string& arguments) {
  Outcome outcome;
  const std::string command = std::string(VERBENA_DEMO) + " " + arguments + " 2>&1";
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
  const Outcome outcome = run("--burst-ms 5 --pcap " + pcap_);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (const char* const word : {"RC SEND", "RC READ", "UD SEND", "messages/s", "tshark -r"}) {
    EXPECT_NE(outcome.text.find(word), std::string::npos) << word << "\n" << outcome.text;
  }
  EXPECT_GT(std::filesystem::file_size(pcap_), 100'000u);
}

TEST_F(Program, SpeaksJson) {
  const Outcome outcome = run("--json --burst-ms 0 --pcap " + pcap_);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const auto json = nlohmann::json::parse(outcome.text);
  EXPECT_EQ(json.at("good"), true);
  EXPECT_EQ(json.at("operations").size(), 11u);
  for (const auto& row : json.at("operations")) EXPECT_EQ(row.at("verified"), true) << row;
}

TEST_F(Program, TellsTheSimulatedRun) {
  const Outcome outcome = run("--simulated --pcap " + pcap_);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("lost on the way"), std::string::npos) << outcome.text;
  EXPECT_GT(std::filesystem::file_size(pcap_), 1'000u);
}

TEST_F(Program, SaysWhatIsWrongWithOptions) {
  for (const char* const arguments :
       {"--loud", "--seed", "--seed x", "--seed -1", "--burst-ms 10001", "--simulated --json"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_NE(outcome.text.find("--help"), std::string::npos) << outcome.text;
  }
}

TEST_F(Program, SaysThatTheCaptureCannotBeWritten) {
  for (const char* const mode : {"", "--simulated "}) {
    const Outcome outcome = run(std::string(mode) + "--pcap /nonexistent/x.pcap");
    EXPECT_EQ(outcome.status, 1) << outcome.text;
    EXPECT_NE(outcome.text.find("/nonexistent/x.pcap"), std::string::npos) << outcome.text;
  }
  // One that opens and takes nothing.
  const Outcome outcome = run("--burst-ms 0 --pcap /dev/full");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_NE(outcome.text.find("/dev/full"), std::string::npos) << outcome.text;
}

TEST_F(Program, Helps) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.text.find("--simulated"), std::string::npos);
}

}  // namespace
}  // namespace verbena::demo
