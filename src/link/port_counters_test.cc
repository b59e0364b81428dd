// SPDX-License-Identifier: Apache-2.0
#include "link/port_counters.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/random.h"

namespace verbena::link {
namespace {

class Nothing final : public DatagramHandler {
 public:
  void on_datagram(const Datagram&) override {}
  void on_consumed(const Datagram&, uint32_t) override {}
};

// A member that answers, as its engine's helper would.
class AnsweringMember {
 public:
  AnsweringMember(const MembershipOptions& options, RandomSource& random) {
    auto joined = Membership::join(options, random);
    EXPECT_TRUE(joined) << joined.error().what;
    host_ = std::move(*joined);
    thread_ = std::thread([this] {
      Nothing nothing;
      while (!stop_.load()) {
        pollfd polled{host_->fd(), POLLIN, 0};
        (void)::poll(&polled, 1, 10);
        host_->on_ready(nothing);
      }
    });
  }
  ~AnsweringMember() {
    stop_.store(true);
    thread_.join();
  }
  [[nodiscard]] Membership& host() { return *host_; }

 private:
  std::unique_ptr<Membership> host_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

[[nodiscard]] MembershipOptions options_of_test() {
  MembershipOptions options;
  options.group = "vcount" + std::to_string(::getpid());
  options.udp.port = static_cast<uint16_t>(25'000 + ::getpid() % 5'000);
  return options;
}

[[nodiscard]] uint64_t sent(PortCounterReader& reader) {
  return reader.read()[static_cast<size_t>(PortCounter::kSentPackets)];
}

TEST(PortCounters, AddUpOverMembersAndTime) {
  SeededRandom random(1);
  const MembershipOptions options = options_of_test();
  PortCounterReader reader(options);
  EXPECT_EQ(sent(reader), 0u);  // nobody is there
  {
    AnsweringMember stays(options, random);
    OwnPortCounters first(stays.host().shown_counters());
    first.set(PortCounter::kSentPackets, 5);
    constexpr int kLooks = 6000;  // a minute: nothing is measured with it
    for (int i = 0; i < kLooks && sent(reader) == 0; ++i) ::usleep(10'000);
    EXPECT_EQ(sent(reader), 5u);
    for (int i = 0; i < 2; ++i) {
      AnsweringMember goes(options, random);
      OwnPortCounters own(goes.host().shown_counters());
      own.set(PortCounter::kSentPackets, 100);
    }
    EXPECT_EQ(sent(reader), 205u);
    first.set(PortCounter::kSentPackets, 6);
    EXPECT_EQ(sent(reader), 206u);
    // The owner's next process begins at 0, and goes on from what is there.
    OwnPortCounters next(stays.host().shown_counters());
    next.set(PortCounter::kSentPackets, 1);
    EXPECT_EQ(sent(reader), 207u);
    PortCounterReader other(options);
    EXPECT_EQ(sent(other), 207u);
  }
  EXPECT_EQ(sent(reader), 207u);
  PortCounterReader late(options);
  EXPECT_EQ(sent(late), 0u);  // the table went with the last of them
}

}  // namespace
}  // namespace verbena::link
