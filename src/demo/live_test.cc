// SPDX-License-Identifier: Apache-2.0
#include "demo/live.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "demo/processes.h"
#include "demo/report.h"
#include "link/framing.h"
#include "wire/opcode.h"
#include "wire/pcap.h"

namespace verbena::demo {
namespace {

constexpr uint16_t kRocePort = 4791;

// A run with a capture of its own, which goes away with it.
class Run {
 public:
  explicit Run(bool ipv6) {
    options.pcap = (std::filesystem::temp_directory_path() /
                    ("verbena-demo-test-" + std::to_string(::getpid()) + ".pcap"))
                       .string();
    options.burst = std::chrono::milliseconds(5);
    options.end.ipv6 = ipv6;
    result = run_live(options);
  }
  ~Run() { std::filesystem::remove(options.pcap); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  LiveOptions options;
  LiveResult result;
};

// The opcodes in the capture; each frame must be whole and have the right ICRC.
[[nodiscard]] std::set<uint8_t> opcodes_in(const Run& run) {
  std::set<uint8_t> opcodes;
  std::ifstream file(run.options.pcap, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  auto reader = wire::PcapReader::open(bytes);
  EXPECT_TRUE(reader);
  uint64_t frames = 0;
  while (reader) {
    const auto record = reader->next();
    EXPECT_TRUE(record);
    if (!record || !record->has_value()) break;
    ++frames;
    const auto packet = link::open_frame((*record)->frame);
    EXPECT_TRUE(packet) << "frame " << frames << ": " << to_string(packet.error());
    if (packet) opcodes.insert(packet->view.bth.opcode);
  }
  EXPECT_EQ(frames, run.result.frames);
  return opcodes;
}

void check_run(bool ipv6) {
  const Run run(ipv6);
  ASSERT_EQ(run.result.problem, "");
  EXPECT_TRUE(run.result.good()) << table_of(run.options, run.result, false);
  ASSERT_EQ(run.result.rows.size(), operations().size());
  for (const LiveRow& row : run.result.rows) {
    EXPECT_GT(row.rate.messages, 0u) << row.operation->name;
    EXPECT_GT(row.rate.seconds, 0) << row.operation->name;
  }
  const auto json = nlohmann::json::parse(json_of(run.options, run.result));
  EXPECT_EQ(json.at("good"), true);
  EXPECT_EQ(json.at("operations").size(), operations().size());
  if (run.result.port != kRocePort) GTEST_SKIP() << "the capture: " << run.result.notice;
  using wire::Op;
  using wire::opcode_byte;
  using wire::Service;
  const std::set<uint8_t> opcodes = opcodes_in(run);
  for (const Op op : {Op::kSendOnly, Op::kSendFirst, Op::kSendOnlyImm, Op::kSendOnlyInvalidate,
                      Op::kWriteMiddle, Op::kWriteOnlyImm, Op::kReadRequest, Op::kReadResponseLast,
                      Op::kCompareSwap, Op::kFetchAdd, Op::kAtomicAcknowledge, Op::kAcknowledge}) {
    EXPECT_TRUE(opcodes.contains(opcode_byte(Service::kRc, op))) << static_cast<int>(op);
  }
  EXPECT_TRUE(opcodes.contains(opcode_byte(Service::kUc, Op::kSendMiddle)));
  EXPECT_TRUE(opcodes.contains(opcode_byte(Service::kUc, Op::kWriteLast)));
  EXPECT_TRUE(opcodes.contains(opcode_byte(Service::kUd, Op::kSendOnly)));
}

TEST(Live, EveryOperationOverIpv4) { check_run(false); }

TEST(Live, EveryOperationOverIpv6) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "no IPv6 here";
  check_run(true);
}

TEST(Live, SaysThatTheCaptureCannotBeWritten) {
  // One that does not open, and one that opens and takes nothing.
  for (const char* const path : {"/nonexistent/x.pcap", "/dev/full"}) {
    LiveOptions options;
    options.pcap = path;
    options.burst = {};
    const LiveResult result = run_live(options);
    EXPECT_NE(result.problem.find(path), std::string::npos) << result.problem;
    EXPECT_FALSE(result.good());
  }
}

TEST(Live, FindsWrongDataInEveryOperation) {
  // Two seeds: what one end sends is not what the other expects.
  std::vector<Verdict> verdicts;
  const auto target = [](Line& line) {
    End end({}, line);
    end.join();
    for (const Operation& operation : operations()) verify_as_target(end, operation, 2);
    line.meet();
  };
  const auto initiator = [&](Line& line) {
    End end({}, line);
    end.join();
    for (const Operation& operation : operations()) {
      verdicts.push_back(verify_as_initiator(end, operation, 1));
    }
    line.meet();
  };
  ASSERT_EQ(run_processes(target, initiator), "");
  ASSERT_EQ(verdicts.size(), operations().size());
  for (size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_GE(verdicts[i].wrong, operations()[i].messages()) << operations()[i].name;
    EXPECT_NE(verdicts[i].first, "") << operations()[i].name;
  }
}

}  // namespace
}  // namespace verbena::demo
