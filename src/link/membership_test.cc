// SPDX-License-Identifier: Apache-2.0
// Joining, steering, leaving, dying.
#include <cstddef>

#include <grp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "link/membership_test_fixture.h"
#include "link/steering.h"

namespace verbena::link::testing {
namespace {

TEST_F(MembershipTest, OneMemberAlone) {
  const Member one = start_joined();
  EXPECT_GE(one.slot(), kFirstSlot);
  EXPECT_LE(one.slot(), kLastSlot);
  expect_delivery({one});
  EXPECT_EQ(one.report->misdelivered, 0U);
  leave(one);
  EXPECT_EQ(one.report->state, Report::kLeft);
  EXPECT_EQ(names_left(), 0U);
}

TEST_F(MembershipTest, TwoMembersGetTheirOwn) {
  const std::vector<Member> members{start_joined(), start_joined()};
  EXPECT_NE(members[0].slot(), members[1].slot());
  for (int i = 0; i < 20; ++i) expect_delivery(members);
  EXPECT_EQ(total_misdelivered(members), 0U);
}

TEST_F(MembershipTest, SixteenAtOnceThenEachGetsItsOwn) {
  std::vector<Member> members;
  for (int i = 0; i < 16; ++i) members.push_back(start());
  for (const Member& member : members) {
    ASSERT_TRUE(settled(member));
    ASSERT_EQ(member.report->state, Report::kJoined) << member.report->message.data();
  }
  for (int i = 0; i < 5; ++i) expect_delivery(members);
  EXPECT_EQ(total_misdelivered(members), 0U);
  EXPECT_TRUE(wait_until([&] {
    return std::ranges::all_of(members, [](const Member& m) { return m.report->members == 16; });
  }));
}

// A newcomer knocks at a member that has no descriptor left to let it in.
TEST_F(MembershipTest, WithoutDescriptorsAMemberStillSleeps) {
  const Member full = start_joined([](Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    const rlimit none{3, 4096};  // those are taken, and poll() wants as many
    (void)::setrlimit(RLIMIT_NOFILE, &none);
    while (report.leave == 0) {
      server.serve(1000);
      ++report.stage;
    }
  });
  const Member late = start();
  EXPECT_TRUE(settled(late));
  EXPECT_EQ(late.report->state, Report::kJoined) << late.report->message.data();
  ::usleep(50'000);
  const uint32_t before = full.report->stage;
  ::usleep(200'000);
  EXPECT_LT(full.report->stage - before, 50U) << "it spins";
  full.report->leave = 1;
  send_to(full.slot(), 0);
  reap(full);
}

TEST_F(MembershipTest, LeavingShiftsNobody) {
  std::vector<Member> members;
  for (int i = 0; i < 6; ++i) members.push_back(start_joined());
  while (members.size() > 1) {
    leave(members.front());
    members.erase(members.begin());
    expect_delivery(members);
    // The survivors attach the new program soon; then nothing is misdelivered any more.
    expect_straight_delivery_soon(members, 1);
  }
}

// Takes the index of the member in report.stage, as happens for a moment when members come and go.
void take_packets_of_other(Membership& host, Report& report) {
  while (report.stage == 0) ::usleep(500);
  const std::array<uint8_t, 2> swapped{host.slot(), static_cast<uint8_t>(report.stage.load())};
  EXPECT_EQ(attach_steering(host.ipv4()->receive.get(), swapped, {}), 0);
  report.stage = 0;
}

// All that a receive buffer holds goes astray while its owner does not look: one leaves before it
// has looked itself, one passes it on as it comes.
TEST_F(MembershipTest, WhatFellToAnotherIsPassedOn) {
  for (const bool leaves : {true, false}) {
    const Member owner = start_joined([](Membership& host, Report& report, Shared& shared) {
      while (report.stage == 0) ::usleep(500);
      serve_until_told(host, report, shared);
    });
    const Member other = start_joined([leaves](Membership& host, Report& report, Shared& shared) {
      take_packets_of_other(host, report);
      if (leaves) {
        while (report.leave == 0) ::usleep(500);
      } else {
        serve_until_told(host, report, shared);
      }
    });
    other.report->stage = owner.slot();
    ASSERT_TRUE(wait_until([&] { return other.report->stage == 0; }));
    std::vector<Sent> sent;
    for (const auto& [count, bytes] :
         {std::pair{15U, 4120UZ}, {15, 4120}, {64, 64}, {64, 1000}, {1, 4120}, {1, 64}}) {
      std::ranges::copy(send_joined(owner.slot(), count, bytes), std::back_inserter(sent));
    }
    if (!leaves) {
      EXPECT_TRUE(wait_until([&] { return other.report->misdelivered == sent.size(); }, 5000));
    }
    leave(other);
    owner.report->stage = 1;
    EXPECT_TRUE(all_arrive(sent, 5000)) << (leaves ? "the other leaves" : "the other serves");
    expect_owners_saw(sent);
    leave(owner);
  }
}

TEST_F(MembershipTest, KilledAtRandomAHundredTimes) {
  SeededRandom random(7);
  std::vector<Member> members;
  for (int i = 0; i < 8; ++i) members.push_back(start_joined());
  for (int kills = 0; kills < 100;) {
    const uint64_t batch = 1 + random.below(3);  // several at once: nobody sees who was first
    for (uint64_t i = 0; i < batch; ++i, ++kills) {
      const size_t victim = random.below(members.size());
      ::kill(members[victim].pid, SIGKILL);
      reap(members[victim]);
      members.erase(members.begin() + static_cast<ptrdiff_t>(victim));
    }
    expect_delivery(members);
    for (uint64_t i = 0; i < batch; ++i) members.push_back(start_joined());
    expect_delivery(members);
  }
  // In time every packet goes straight to its owner again.
  expect_straight_delivery_soon(members, 5);
  EXPECT_TRUE(wait_until([&] {
    return std::ranges::all_of(members, [](const Member& m) { return m.report->members == 8; });
  }));
  while (!members.empty()) {
    end(members.back(), SIGKILL);
    members.pop_back();
  }
  EXPECT_EQ(names_left(), 0U);
  EXPECT_FALSE(port_left());
  expect_delivery({start_joined()});
}

TEST_F(MembershipTest, AStoppedMemberHindersNobody) {
  std::vector<Member> members;
  for (int i = 0; i < 4; ++i) members.push_back(start_joined());
  const Member stopped = members[1];
  stop(stopped);
  std::vector<Member> others{members[0], members[2], members[3]};
  expect_delivery(others);
  others.push_back(start_joined());
  expect_delivery(others);
  // Two die meanwhile. Until that is noticed, a packet may fall to the stopped one; then no more.
  others.push_back(start_joined());
  for (int i = 0; i < 2; ++i) {
    end(others[0], SIGKILL);
    others.erase(others.begin());
  }
  ASSERT_TRUE(wait_until([&] {
    return std::ranges::all_of(others, [](const Member& m) { return m.report->members == 4; });
  }));
  expect_straight_delivery_soon(others, 10);
  others.push_back(start_joined());
  ::kill(stopped.pid, SIGCONT);
  others.push_back(stopped);
  expect_delivery(others);
  expect_straight_delivery_soon(others, 10);
}

// As a dying process has it when it has closed some of its descriptors.
[[nodiscard]] UniqueFd bind_without_listening(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);
  const size_t bytes = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  EXPECT_EQ(
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(bytes)),
      0);
  return fd;
}

// A dying process closes its descriptors one by one, at any pace: its connections may end long
// before its name is free. Of four members in the order of their slots, one is stopped, two die,
// and one is left to notice both: as neighbours below or above, with the nearer or the farther
// name free at last.
TEST_F(MembershipTest, TheLastToNoticeLooksUntilANameIsFree) {
  for (const auto& [below, slow] : {std::pair{true, 2}, {true, 1}, {false, 2}, {false, 1}}) {
    SCOPED_TRACE(::testing::Message() << "below " << below << ", slow " << slow);
    std::vector<Member> ring;
    for (int i = 0; i < 4; ++i) ring.push_back(start_joined());
    std::ranges::sort(ring, {}, &Member::slot);
    if (!below) std::ranges::reverse(ring);
    const Member survivor = ring[3];
    stop(ring[0]);
    UniqueFd name;
    {
      const GroupLock lock = take_lock();  // nobody is reaped yet
      end(ring[1], SIGKILL);
      end(ring[2], SIGKILL);
      name = bind_without_listening(GroupNames(options_.group, options_.udp.port)
                                        .member(ring[static_cast<size_t>(slow)].slot()));
    }
    EXPECT_TRUE(wait_until([&] { return survivor.report->members == 3; }));
    ::usleep(300'000);
    EXPECT_EQ(survivor.report->members, 3U);
    name.reset();
    EXPECT_TRUE(wait_until([&] { return survivor.report->members == 2; }));
    end(ring[0], SIGKILL);
    EXPECT_TRUE(wait_until([&] { return survivor.report->members == 1; }));
    leave(survivor);
  }
}

TEST_F(MembershipTest, JoinsWhileAllOthersAreStopped) {
  const std::vector<Member> members{start_joined(), start_joined()};
  for (const Member& member : members) ::kill(member.pid, SIGSTOP);
  const Member newcomer = start_joined();  // finds the table in /proc
  expect_delivery({newcomer});
  for (const Member& member : members) ::kill(member.pid, SIGCONT);
  expect_delivery({members[0], members[1], newcomer});
}

TEST_F(MembershipTest, AFreedSlotRests) {
  options_.slot_rest = 3600 * kSecond;
  const Member keeper = start_joined();
  std::array<bool, kSlots> used{};
  for (int i = 0; i < 24; ++i) {
    const Member member = start_joined();
    EXPECT_FALSE(used[member.slot()]);
    used[member.slot()] = true;
    if (i % 2 == 0) {
      end(member, SIGKILL);
    } else {
      leave(member);
    }
  }
  expect_delivery({keeper});
}

TEST_F(MembershipTest, GroupsAreIndependent) {
  const Member here = start_joined();
  const MembershipOptions first = options_;
  options_.group += "b";
  options_.udp.port = static_cast<uint16_t>(options_.udp.port + 6'000);
  const Member there = start_joined();
  expect_delivery({there});
  EXPECT_TRUE(wait_until([&] { return there.report->members == 1; }));
  options_ = first;
  expect_delivery({here});
  EXPECT_TRUE(wait_until([&] { return here.report->members == 1; }));
}

TEST_F(MembershipTest, TwoMountNamespacesShare) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const Member one = start_joined();
  const Member two = start_joined(serve_until_told, [] { (void)::unshare(CLONE_NEWNS); });
  expect_delivery({one, two});
  EXPECT_TRUE(wait_until([&] { return one.report->members == 2 && two.report->members == 2; }));
}

TEST_F(MembershipTest, AnotherUserIsToldWhoHasThePort) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const Member ours = start_joined();
  options_.this_host_if_taken = false;
  const Member theirs = start(serve_until_told, [] {
    if (::setgroups(0, nullptr) != 0 || ::setuid(65534) != 0) ::_exit(1);
  });
  ASSERT_TRUE(settled(theirs));
  EXPECT_EQ(theirs.report->state, Report::kFailed);
  EXPECT_EQ(theirs.report->error, static_cast<uint32_t>(MembershipError::Kind::kPortTakenByOther));
  EXPECT_NE(std::string(theirs.report->message.data()).find(std::to_string(options_.udp.port)),
            std::string::npos);
  expect_delivery({ours});
}

TEST_F(MembershipTest, AForkedChildTakesNothingAlong) {
  // The member forks a child that abandons; the child outlives it.
  const Member parent = start_joined([](Membership& host, Report& report, Shared& shared) {
    host.before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      host.abandon_in_child();
      report.stage = static_cast<uint32_t>(::getpid());
      ::prctl(PR_SET_PDEATHSIG, 0);
      for (int i = 0; i < 3000; ++i) ::usleep(1000);
      ::_exit(0);
    }
    host.after_fork_in_parent();
    serve_until_told(host, report, shared);
  });
  const Member other = start_joined();
  ASSERT_TRUE(wait_until([&] { return parent.report->stage != 0; }));
  expect_delivery({parent, other});
  end(parent, SIGKILL);
  expect_delivery({other});
  EXPECT_TRUE(wait_until([&] { return other.report->members == 1; }));
  ::kill(static_cast<pid_t>(parent.report->stage.load()), SIGKILL);
}

// The newcomer cannot look for its descriptors; it says why it does not join.
TEST_F(MembershipTest, AStoppedMemberOutOfSightIsSaid) {
  if (::geteuid() != 0) GTEST_SKIP() << "a pid namespace takes root";
  const Member member = start_joined();
  ::kill(member.pid, SIGSTOP);
  Report* const inside = &shared_->reports.back();
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t inner = ::fork();
    if (inner == 0) run_member(*inside, serve_until_told);
    if (inner > 0) ::waitpid(inner, nullptr, 0);
    ::_exit(0);
  }
  ::waitpid(outer, nullptr, 0);
  ::kill(member.pid, SIGCONT);
  EXPECT_EQ(inside->error, static_cast<uint32_t>(MembershipError::Kind::kNoAnswer));
  EXPECT_NE(std::string_view(inside->message.data()).find("another pid namespace"),
            std::string_view::npos)
      << inside->message.data();
}

// Newcomers wait for a holder that is merely slow, and for one after the other, but not for one
// that is stopped.
TEST_F(MembershipTest, OnlyAStoppedLockHolderEndsThePatience) {
  constexpr Duration kBound = 20 * kMillisecond;
  const GroupNames names(options_.group, options_.udp.port);
  const auto bounds_waited = [&] {
    LockPatience patience(kBound, names.lock());
    const Time begin = monotonic_now();
    while (const auto pause = patience.next_pause()) sleep_for(*pause);
    return (monotonic_now() - begin) / kBound;
  };
  {
    const auto lock = GroupLock::try_take(names);
    ASSERT_TRUE(lock);
    EXPECT_GE(bounds_waited(), LockPatience::kMostBounds);
  }
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto lock = GroupLock::take(names, 10 * kSecond);
    if (lock) ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  // By the clock it may be more on a crowded machine; it is asked once.
  LockPatience patience(0, names.lock());
  EXPECT_FALSE(patience.next_pause());
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  LockPatience free(0, names.lock());
  EXPECT_TRUE(free.next_pause());
}

TEST_F(MembershipTest, AStoppedLockHolderIsNamed) {
  const Member member = start_joined();
  const GroupNames names(options_.group, options_.udp.port);
  const auto lock = GroupLock::try_take(names);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(GroupLock::try_take(names));
  EXPECT_EQ(GroupLock::holder(names), ::getpid());
  expect_delivery({member});  // packets need no lock
}

}  // namespace
}  // namespace verbena::link::testing
