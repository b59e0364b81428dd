// SPDX-License-Identifier: Apache-2.0
#include "link/member_names.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/roster.h"
#include "link/unix_dump.h"

namespace verbena::link {
namespace {

constexpr uint64_t kSuffix = 0x00ab'cdef'0123'4567;

class MemberNames : public ::testing::Test {
 protected:
  GroupNames names_{"vnames" + std::to_string(::getpid()), 1};
};

TEST_F(MemberNames, HaveOneForm) {
  using Form = GroupNames::Form;
  EXPECT_EQ(names_.member(7), names_.prefix() + ".7");
  EXPECT_EQ(names_.member(7, kSuffix), names_.prefix() + ".7.00abcdef01234567");
  EXPECT_EQ(names_.form_of(names_.member(254)), Form::kPlain);
  EXPECT_EQ(names_.form_of(names_.member(1, kSuffix)), Form::kSuffixed);
  EXPECT_EQ(names_.form_of(names_.member(1, ~uint64_t{0})), Form::kSuffixed);
  for (const char* const rest :
       {"", ".", ".0", ".255", ".07", ".7.", ".7.0000000000000000", ".7.00ABCDEF01234567",
        ".7.0abcdef01234567", ".7.000abcdef01234567", ".7.00abcdef01234567.", ".7x00abcdef01234567",
        ".-7", ".lock", ".7.-0abcdef01234567", ".99999999999999999999"}) {
    EXPECT_FALSE(names_.form_of(names_.prefix() + rest)) << rest;
  }
  EXPECT_FALSE(names_.form_of("x" + names_.member(7)));
}

TEST_F(MemberNames, OfTheLongestGroupFit) {
  const GroupNames longest(std::string(GroupNames::kMaxGroupBytes, 'g'), 65535);
  const auto held = listen_on(longest.member(254, kSuffix), 1);
  ASSERT_TRUE(held);
  EXPECT_EQ(list_members(longest).size(), 1U);
}

TEST_F(MemberNames, AreListedWhileSomebodyListens) {
  const GroupNames other("vnames-other" + std::to_string(::getpid()), 2);
  {
    const auto plain = listen_on(names_.member(3), 1);
    const auto suffixed = listen_on(names_.member(4, kSuffix), 1);
    const auto lock = listen_on(names_.lock(), 1);
    const auto others = listen_on(other.member(5), 1);
    ASSERT_TRUE(plain && suffixed && lock && others);
    size_t with_suffix = 0;
    for (const ListedMember& member : list_members(names_)) {
      EXPECT_EQ(member.name, member.has_suffix ? names_.member(4, kSuffix) : names_.member(3));
      with_suffix += member.has_suffix ? 1 : 0;
    }
    EXPECT_EQ(list_members(names_).size(), 2U);
    EXPECT_EQ(with_suffix, 1U);
    EXPECT_EQ(list_members(other).size(), 1U);
  }
  EXPECT_TRUE(list_members(names_).empty());
}

// Where the kernel has no unix_diag.
TEST_F(MemberNames, AreInProcAsWell) {
  const std::string name = names_.member(4, kSuffix);
  const auto held = listen_on(name, 1);
  ASSERT_TRUE(held);
  size_t seen = 0;
  const auto count = [&](const NamedSocket& socket) {
    EXPECT_FALSE(socket.owner);
    seen += socket.name == name ? 1 : 0;
    return true;
  };
  visit_names_in_proc(kNever, count);
  EXPECT_EQ(seen, 1U);
  visit_names_in_proc(0, count);
  EXPECT_EQ(seen, 1U) << "its time was over";
}

TEST_F(MemberNames, AreThoseOfTheSlotsOwner) {
  const auto table = std::make_unique<SharedTable>();
  Roster roster(*table);
  EXPECT_FALSE(name_of_member(names_, *table, 9)) << "nobody's";
  Entry entry{.pid = 1, .source_port = {0xc001, 0}, .budget = 1000};
  entry.suffix = kSuffix;
  roster.enter(9, entry);
  EXPECT_EQ(name_of_member(names_, *table, 9), names_.member(9, kSuffix));
  {
    const auto held = listen_on(names_.member(9, kSuffix), 1);
    EXPECT_EQ(roster.reap_dead(names_, std::nullopt, 1000), 0U);
  }
  const auto other = listen_on(names_.member(9), 1);  // no name of the one that died
  EXPECT_EQ(roster.reap_dead(names_, std::nullopt, 1000), 1U);
  EXPECT_FALSE(name_of_member(names_, *table, 9));
  entry.suffix = 0;
  roster.enter(9, entry);
  EXPECT_EQ(name_of_member(names_, *table, 9), names_.member(9));
}

}  // namespace
}  // namespace verbena::link
