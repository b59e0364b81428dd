// SPDX-License-Identifier: Apache-2.0
// Another user binds the names that members and newcomers of ours need. None of them waits for it,
// they are of one group all the same, and are told who it is.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/un.h>

#include "link/joining.h"
#include "link/member_names.h"
#include "link/membership_test_fixture.h"
#include "link/name_holder.h"
#include "link/peers.h"
#include "link/port_counters.h"
#include "link/shared_link_test_fixture.h"
#include "support/nobody.h"

namespace verbena::link::testing {
namespace {

using verbena::testing::can_become_nobody;
using verbena::testing::kNobody;
using verbena::testing::start_as_nobody;

// How somebody has a name.
enum class Having : uint8_t { kListens, kBoundOnly, kQueueIsFull };

[[nodiscard]] UniqueFd have(const std::string& name, Having how) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&un), length) != 0) return {};
  const int backlog = how == Having::kListens ? 128 : 0;
  if (how != Having::kBoundOnly && ::listen(fd.get(), backlog) != 0) return {};
  return fd;
}

class Squatters : public MembershipTest {
 protected:
  void SetUp() override {
    if (!can_become_nobody()) GTEST_SKIP() << "to be another user takes root";
  }
  ~Squatters() override { end_squatters(); }
  void end_squatters() {
    for (const pid_t pid : squatters_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    squatters_.clear();
  }

  // A process of user nobody has these names from now on, and what `also` opens.
  void squat(const std::vector<std::string>& names, Having how,
             const std::function<UniqueFd()>& also = {}) {
    start_squatting(names, how, also);
    ASSERT_TRUE(wait_until([&] { return squatting(); }));
  }
  // It takes each as soon as it is free.
  void start_squatting(const std::vector<std::string>& names, Having how,
                       const std::function<UniqueFd()>& also = {}) {
    std::atomic<uint32_t>& ready = shared_->reports.back().stage;
    ready = 0;
    squatters_.push_back(start_as_nobody([&]() -> int {
      std::vector<UniqueFd> held;
      if (also) held.push_back(also());
      for (const std::string& name : names) {
        held.push_back(have(name, how));
        for (; !held.back().valid(); ::usleep(100)) held.back() = have(name, how);
        for (int i = 0; i < 3 && how == Having::kQueueIsFull; ++i) {
          auto fd = connect_to(name);
          if (fd) held.push_back(std::move(*fd));
        }
      }
      ready = 1;
      for (;;) ::pause();
    }));
  }
  [[nodiscard]] bool squatting() const { return shared_->reports.back().stage == 1; }
  [[nodiscard]] GroupNames names() const { return {options_.group, options_.udp.port}; }
  [[nodiscard]] std::vector<std::string> all_members() const { return all_members(names()); }
  [[nodiscard]] static std::vector<std::string> all_members(const GroupNames& of) {
    std::vector<std::string> all;
    for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
      all.push_back(of.member(static_cast<uint8_t>(slot)));
    }
    return all;
  }
  [[nodiscard]] std::vector<std::string> members_with_suffix() const {
    std::vector<std::string> found;
    for (const ListedMember& member : list_members(names())) {
      if (member.has_suffix) found.push_back(member.name);
    }
    return found;
  }
  [[nodiscard]] std::string nobody() const {
    return "process " + std::to_string(squatters_.back()) + " of user " + std::to_string(kNobody);
  }

  std::vector<pid_t> squatters_;
};

// Its life; what it was told goes into its report.
void tell_and_serve(Membership& host, Report& report, Shared& shared) {
  std::strncpy(report.message.data(), host.name_held().c_str(), report.message.size() - 1);
  report.stage = host.this_host_only().empty() ? 1 : 2;
  Server server(host, report, shared);
  while (report.leave == 0) server.serve(5);
}

class SquattersOfLocks : public Squatters, public ::testing::WithParamInterface<Having> {};

TEST_P(SquattersOfLocks, KeepNobodyOut) {
  squat({names().lock(), names().choice()}, GetParam());
  std::vector<Member> members;
  for (int i = 0; i < 8; ++i) members.push_back(start(tell_and_serve));  // all at once
  for (const Member& member : members) {
    ASSERT_TRUE(settled(member));
    ASSERT_EQ(member.report->state, Report::kJoined) << member.report->message.data();
  }
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }))
        << "not of one group: " << member.report->members;
    const std::string told = member.report->message.data();
    EXPECT_NE(told.find("user " + std::to_string(kNobody)), std::string::npos) << told;
    if (GetParam() == Having::kListens) {
      EXPECT_NE(told.find(nobody()), std::string::npos) << told;
    }
    EXPECT_EQ(member.report->stage, 1U) << "on another port";
  }
  expect_delivery(members);
}

TEST_P(SquattersOfLocks, HinderNoMember) {
  std::vector<Member> members;
  for (int i = 0; i < 4; ++i) members.push_back(start_joined());
  const auto bound = [](Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    while (report.stage == 0) server.serve(5);
    report.refused = static_cast<uint64_t>(host.add_port({}, Ports::Kind::kListening));
    report.stage = 2;
    while (report.leave == 0) server.serve(5);
  };
  members.push_back(start_joined(bound));
  squat({names().lock(), names().choice()}, GetParam());
  const Member& binder = members.back();
  binder.report->stage = 1;
  EXPECT_TRUE(wait_until([&] { return binder.report->stage == 2; }));
  EXPECT_EQ(binder.report->refused, 0U) << "the port was not bound";
  end(members[0], SIGKILL);
  members.erase(members.begin());
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }));
  }
  expect_delivery(members);
}

INSTANTIATE_TEST_SUITE_P(Ways, SquattersOfLocks,
                         ::testing::Values(Having::kListens, Having::kBoundOnly,
                                           Having::kQueueIsFull));

TEST_F(Squatters, OfAFewMembersNamesArePassedBy) {
  auto some = all_members();
  some.resize(200);
  squat(some, Having::kQueueIsFull);
  const Member one = start_joined(tell_and_serve);
  const Member two = start_joined(tell_and_serve);
  EXPECT_TRUE(wait_until([&] { return one.report->members == 2 && two.report->members == 2; }));
  EXPECT_EQ(one.report->stage, 1U);
  EXPECT_GT(one.slot(), 200);
  expect_delivery({one, two});
}

class SquattersOfAllMembers : public Squatters, public ::testing::WithParamInterface<Having> {};

TEST_P(SquattersOfAllMembers, AreNamedAndKeepNobodyOut) {
  squat(all_members(), GetParam());
  const std::string user = "user " + std::to_string(kNobody);
  const std::string holder = GetParam() == Having::kListens ? nobody() : user;
  std::vector<Member> members;
  for (size_t i = 0; i < 3; ++i) members.push_back(start_joined(tell_and_serve));
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }));
    EXPECT_EQ(member.report->stage, 1U) << "on another port";
    const std::string told = member.report->message.data();
    EXPECT_NE(told.find(holder), std::string::npos) << told;
  }
  expect_delivery(members);
  EXPECT_EQ(members_with_suffix().size(), members.size());
}

// Nothing is left by which they could take turns but the port and the table.
TEST_P(SquattersOfAllMembers, AndOfTheLocksDoNotSplitThoseThatStartAtOnce) {
  std::vector<std::string> all = all_members();
  all.push_back(names().lock());
  all.push_back(names().choice());
  squat(all, GetParam());
  std::vector<Member> members;
  for (size_t i = 0; i < 8; ++i) members.push_back(start(tell_and_serve));
  for (const Member& member : members) {
    ASSERT_TRUE(settled(member));
    ASSERT_EQ(member.report->state, Report::kJoined) << member.report->message.data();
  }
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }))
        << "not of one group: " << member.report->members;
    EXPECT_EQ(member.report->stage, 1U) << "on another port";
  }
  expect_delivery(members);
}

TEST_P(SquattersOfAllMembers, DoNotHideCounters) {
  squat(all_members(), GetParam());
  (void)start_joined([](Membership& host, Report& report, Shared& shared) {
    OwnPortCounters(host.shown_counters()).set(PortCounter::kSentPackets, 7);
    serve_until_told(host, report, shared);
  });
  const auto sent = [](PortCounterReader& reader) {
    return reader.read()[static_cast<size_t>(PortCounter::kSentPackets)];
  };
  PortCounterReader reader(options_);
  EXPECT_TRUE(wait_until([&] { return sent(reader) == 7; }));
  end_squatters();
  PortCounterReader late(options_);
  EXPECT_TRUE(wait_until([&] { return sent(late) == 7; }));
  // Longer than the reader goes without looking whether they are still there.
  EXPECT_FALSE(wait_until([&] { return sent(reader) != 7; }, 1200));
}

INSTANTIATE_TEST_SUITE_P(Ways, SquattersOfAllMembers,
                         ::testing::Values(Having::kListens, Having::kBoundOnly,
                                           Having::kQueueIsFull));

// Who has no plain name is found when nobody has those any more, and is of one group with those
// that have.
TEST_F(Squatters, ThatLetGoLeaveOneGroup) {
  squat(all_members(), Having::kListens);
  std::vector<Member> members{start_joined(tell_and_serve)};
  end_squatters();
  for (size_t i = 0; i < 2; ++i) members.push_back(start_joined(tell_and_serve));
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }));
    EXPECT_EQ(member.report->stage, 1U) << "on another port";
  }
  EXPECT_EQ(members_with_suffix().size(), 1U);
  EXPECT_STREQ(members.back().report->message.data(), "");
  expect_delivery(members);
}

TEST_F(Squatters, ThatLetGoOfThePortAsWellLeaveOneGroup) {
  const GroupNames elsewhere(options_.group, candidate_ports(options_.udp.port)[1]);
  std::vector<std::string> all = all_members();
  for (const std::string& name : all_members(elsewhere)) all.push_back(name);
  squat(all, Having::kListens, [&] {
    auto port = claim_port(options_.udp.port);
    return port ? std::move(*port) : UniqueFd();
  });
  const Member one = start_joined(tell_and_serve);
  end_squatters();
  const Member two = start_joined(tell_and_serve);
  for (const Member& member : {one, two}) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == 2; }));
    EXPECT_EQ(member.report->stage, 2U) << "not on the port of the first";
  }
}

TEST_F(Squatters, OfADeadMembersRandomNameDoNotKeepItAlive) {
  squat(all_members(), Having::kListens);
  const Member survivor = start_joined();
  const std::vector<std::string> first = members_with_suffix();
  const Member victim = start_joined();
  ASSERT_TRUE(wait_until([&] { return survivor.report->members == 2; }));
  std::vector<std::string> victims = members_with_suffix();
  std::erase(victims, first.at(0));
  ASSERT_EQ(victims.size(), 1U);
  start_squatting(victims, Having::kListens);
  {
    const GroupLock lock = take_lock();  // not reaped yet
    end(victim, SIGKILL);
    ASSERT_TRUE(wait_until([&] { return squatting(); }));
  }
  EXPECT_TRUE(wait_until([&] { return survivor.report->members == 1; }));
  const Member next = start_joined();
  EXPECT_TRUE(wait_until([&] { return next.report->members == 2; }));
  expect_delivery({survivor, next});
}

// The slot's next owner is reached by the name that it has.
TEST_F(Squatters, LeaveNoSuffixInASlotThatIsUsedAgain) {
  squat(all_members(), Having::kListens);
  const Member survivor = start_joined();
  const Member victim = start_joined();
  ASSERT_TRUE(wait_until([&] { return survivor.report->members == 2; }));
  end(victim, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return survivor.report->members == 1; }));
  end_squatters();
  const uint64_t place = victim.slot() - 1U - (survivor.slot() < victim.slot() ? 1U : 0U);
  ChoosesSlot random(place, kLastSlot - 1);
  auto next = Membership::join(options_, random);
  ASSERT_TRUE(next) << next.error().what;
  ASSERT_EQ((*next)->slot(), victim.slot());
  EXPECT_EQ(name_of_member(names(), (*next)->table(), victim.slot()),
            names().member(victim.slot()));
  EXPECT_EQ(name_of_member(names(), (*next)->table(), survivor.slot()),
            members_with_suffix().at(0));
  EXPECT_TRUE((*next)->wake(survivor.slot()));
}

// Names of the right form, and whoever has them answers.
TEST_F(Squatters, WithThousandsOfNamesDelayNobody) {
  squat(all_members(), Having::kListens);
  SeededRandom random(1);
  constexpr size_t kProcesses = 8;
  constexpr size_t kNames = 750;  // a process may have 1024 descriptors
  for (size_t i = 0; i < kProcesses; ++i) {
    std::vector<std::string> forged;
    for (size_t k = 0; k < kNames; ++k) {
      const auto slot = static_cast<uint8_t>(kFirstSlot + random.below(kLastSlot));
      forged.push_back(names().member(slot, random.next()));
    }
    squat(forged, Having::kListens);
  }
  const Time start = monotonic_now();
  std::vector<Member> members;
  for (size_t i = 0; i < 4; ++i) members.push_back(start_joined(tell_and_serve));
  EXPECT_LT(monotonic_now() - start, 4 * kSecond);
  for (const Member& member : members) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == members.size(); }));
  }
  expect_delivery(members);
}

// They must not look like members on another port, which newcomers would join.
TEST_F(Squatters, OnAnotherPortDrawNobodyThere) {
  const GroupNames elsewhere(options_.group, candidate_ports(options_.udp.port)[1]);
  squat({elsewhere.member(5), elsewhere.member(6)}, Having::kQueueIsFull);
  const Member member = start_joined(tell_and_serve);
  EXPECT_TRUE(wait_until([&] { return member.report->stage != 0; }));
  EXPECT_EQ(member.report->stage, 1U);
}

TEST_F(Squatters, OfADeadMembersNameDoNotKeepItAlive) {
  const Member survivor = start_joined();
  const Member victim = start_joined();
  ASSERT_TRUE(wait_until([&] { return survivor.report->members == 2; }));
  start_squatting({names().member(victim.slot())}, Having::kListens);
  {
    const GroupLock lock = take_lock();  // not reaped yet
    end(victim, SIGKILL);
    ASSERT_TRUE(wait_until([&] { return squatting(); }));
  }
  EXPECT_TRUE(wait_until([&] { return survivor.report->members == 1; }));
}

// A service that opens the device as root and then gives up its rights is a member as before: it
// takes the others for none of another user's, and gives what they share to nobody new.
TEST_F(Squatters, AMemberThatBecomesAnotherUserStaysAmongItsOwn) {
  const Member dropped = start_joined([](Membership& host, Report& report, Shared& shared) {
    if (verbena::testing::become_nobody()) report.stage = 1;
    Server server(host, report, shared);
    while (report.leave == 0) server.serve(5);
  });
  ASSERT_TRUE(wait_until([&] { return dropped.report->stage == 1; }));
  const std::string name = names().member(dropped.slot());
  const Member other = start_joined();
  const Member victim = start_joined();
  ASSERT_TRUE(wait_until([&] { return dropped.report->members == 3; }));
  end(victim, SIGKILL);  // somebody has to look who is left
  for (const Member& member : {dropped, other}) {
    EXPECT_TRUE(wait_until([&] { return member.report->members == 2; }));
  }
  expect_delivery({dropped, other});
  EXPECT_EQ(dropped.report->members, 2U);

  const int given = verbena::testing::result_of(start_as_nobody([&] {
    const auto fd = connect_to(name);
    if (!fd) return 1;
    (void)send_message(fd->get(), {PeerMessage::Kind::kAskTable, 0});  // it may be closed already
    pollfd answer{fd->get(), POLLIN, 0};
    if (::poll(&answer, 1, 10'000) != 1) return 2;
    return receive_table(fd->get()) ? 3 : 0;
  }));
  EXPECT_EQ(given, 0) << "3: the table was given to another user";
}

// Who has no number here has everybody's who has none.
TEST(SameUser, IsNeverTheOverflowUidOfANamespaceThatLeavesSomebodyOut) {
  constexpr std::string_view kWhole = "         0          0 4294967295\n";
  constexpr std::string_view kPart = "         0     100000      65536\n";
  EXPECT_TRUE(is_same_user(0, 0, 65534, kPart));
  EXPECT_TRUE(is_same_user(1000, 1000, 65534, ""));
  EXPECT_FALSE(is_same_user(1000, 0, 65534, kWhole));
  EXPECT_TRUE(is_same_user(65534, 65534, 65534, kWhole)) << "nobody, who is a user there";
  EXPECT_FALSE(is_same_user(65534, 65534, 65534, kPart));
  EXPECT_FALSE(is_same_user(65534, 65534, 65534, ""));
  EXPECT_TRUE(is_same_user(65534, 65534, 99, kPart));
}

}  // namespace
}  // namespace verbena::link::testing
