// SPDX-License-Identifier: Apache-2.0
// What a user reads on the standard error when a program is about to hang. Each case is a part that
// runs in a process of its own, this program again, with a pipe as its standard error from the
// start.
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "pair.h"

namespace verbena::device::testing {
namespace {

using namespace std::chrono_literals;
using transport::SendOp;
using transport::WcStatus;

// In a part: its standard input ends when its line was read.
[[nodiscard]] bool told_within(std::chrono::milliseconds patience) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, static_cast<int>(patience.count())) > 0;
}
void until_told() { (void)told_within(kPatience / 2); }

// What a part exits with that was too slow to say anything.
constexpr int kTooSlow = 77;
// A program that reads its events within a second hears nothing more. After that, a line would come
// within half a second.
void expect_silence(std::chrono::steady_clock::time_point failed) {
  if (std::chrono::steady_clock::now() - failed > 800ms) ::_exit(kTooSlow);
  std::this_thread::sleep_until(failed + 1500ms);
}

// The lines of ours in what a part wrote.
[[nodiscard]] std::vector<std::string> lines_in(const std::string& all) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    if (all.compare(at, 9, "verbena: ") == 0) lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

struct Heard {
  std::vector<std::string> lines;
  bool too_slow = false;
};

[[nodiscard]] Heard hear(const std::string& part) {
  std::array<int, 2> ends{};
  std::array<int, 2> input{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::dup2(input[0], STDIN_FILENO);
    (void)::dup2(ends[1], STDERR_FILENO);
    const std::string filter = "--gtest_filter=NoticePart.DISABLED_" + part;
    ::execl("/proc/self/exe", "device_topics_test", filter.c_str(),
            "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    ::_exit(1);
  }
  ::close(input[0]);
  ::close(ends[1]);
  UniqueFd stays(input[1]);
  std::string all;
  std::array<char, 4096> some{};
  for (ssize_t got = 0; (got = ::read(ends[0], some.data(), some.size())) > 0;) {
    all.append(some.data(), static_cast<size_t>(got));
    if (!lines_in(all).empty()) stays.reset();
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  const bool too_slow = WIFEXITED(status) && WEXITSTATUS(status) == kTooSlow;
  EXPECT_TRUE(status == 0 || too_slow) << all;
  return {lines_in(all), too_slow};
}

[[nodiscard]] std::vector<std::string> lines_of(const std::string& part) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    Heard heard = hear(part);
    if (!heard.too_slow) return std::move(heard.lines);
    if (std::chrono::steady_clock::now() < until) continue;
    ADD_FAILURE() << part << ": each time it was off its core for most of a second";
    return {};
  }
}

void expect_one_line(const std::string& part, const std::string& with) {
  const std::vector<std::string> lines = lines_of(part);
  ASSERT_EQ(lines.size(), 1u) << part;
  EXPECT_NE(lines[0].find(with), std::string::npos) << lines[0];
}

// The far end's queue pair fails, not before the time given, for what the near one asks of it.
using AfterFailure = std::function<void(End&, std::chrono::steady_clock::time_point)>;
void fail_far(const AfterFailure& far_after) {
  std::chrono::steady_clock::time_point began;
  run_pair(
      {.one_process = true},
      [&](End& near) {
        near.barrier();
        began = std::chrono::steady_clock::now();
        transport::SendRequest request;
        request.op = SendOp::kWrite;
        const std::array<memory::Sge, 1> list{near.sge(0, 8)};
        request.list = list;
        request.remote_addr = RemoteAddr(near.remote_addr(0));
        request.rkey = RKey(near.remote_rkey().value ^ 0x5500);
        must(near.context().post_send(near.qp(0), request), "post");
        EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kRemoteAccess);
        near.barrier();
      },
      [&](End& far) {
        far.barrier();
        far.barrier();
        far_after(far, began);
      });
}

TEST(NoticePart, DISABLED_Overflow) {
  run_pair(
      {.depth = 64, .cq_entries = 4},
      [](End& near) {
        for (int i = 0; i < 32; ++i) near.post(0, {.op = SendOp::kWrite, .bytes = 8});
        EXPECT_EQ(near.next_event().type, EventType::kCqError);
        until_told();
      },
      [](End&) {});
}
TEST(NoticePart, DISABLED_ErrorUnread) {
  fail_far([](End&, auto) { until_told(); });
}
TEST(NoticePart, DISABLED_ErrorRead) {
  fail_far([](End& far, auto failed) {
    EXPECT_EQ(far.next_event().type, EventType::kQpAccessError);
    expect_silence(failed);
  });
}
TEST(NoticePart, DISABLED_ErrorCompletes) {
  fail_far([](End& far, auto failed) {
    EXPECT_EQ(far.context().post_recv(far.qp(0), {}), 0);
    EXPECT_EQ(far.next(far.recv_cq()).status, WcStatus::kFlushed);
    expect_silence(failed);
  });
}
// More than the buffer holds arrives while nobody may take it.
TEST(NoticePart, DISABLED_Drops) {
  const auto device = open_device();
  const UniqueFd from(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(device->engine().host().port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::vector<uint8_t> bytes(32'000);
  const auto send = [&] {
    (void)!::sendto(from.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to),
                    sizeof to);
  };
  {
    const Engine::Quiet locked(device->engine());
    for (int i = 0; i < 4000; ++i) send();
  }
  // The next packet that finds room tells how many found none.
  const auto until = std::chrono::steady_clock::now() + kPatience / 2;
  while (!told_within(20ms) && std::chrono::steady_clock::now() < until) send();
}

// To nobody of this host, where only shared memory may be used.
TEST(NoticePart, DISABLED_WithoutRing) {
  ::setenv("VERBENA_TEST_LINK", "shared", 1);  // NOLINT(concurrency-mt-unsafe)
  run_pair(
      {.one_process = true, .type = transport::QpType::kUd},
      [](End& near) {
        constexpr uint32_t kNobody = 0xff0123;  // in a slot that no process gets
        const std::array<memory::Sge, 1> list{near.sge(0, 8)};
        transport::SendRequest request;
        request.list = list;
        request.path = near.path();
        request.remote_qpn = Qpn(kNobody);
        request.flags = transport::kSignaled;
        must(near.context().post_send(near.qp(0), request), "post");
        EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kSuccess);
        until_told();
      },
      [](End&) {});
}

TEST(NoticesOnStandardError, AnOverflow) { expect_one_line("Overflow", "overflowed"); }
TEST(NoticesOnStandardError, AnErrorThatNobodyReads) {
  expect_one_line("ErrorUnread", "IBV_EVENT_QP_ACCESS_ERR");
}
TEST(NoticesOnStandardError, NotAnErrorThatTheProgramKnows) {
  EXPECT_TRUE(lines_of("ErrorRead").empty());
  EXPECT_TRUE(lines_of("ErrorCompletes").empty());
}
TEST(NoticesOnStandardError, NoSharedMemoryLeadsThere) {
  expect_one_line("WithoutRing", "no shared memory leads");
}
TEST(NoticesOnStandardError, DroppedPackets) { expect_one_line("Drops", "dropped packets"); }

}  // namespace
}  // namespace verbena::device::testing
