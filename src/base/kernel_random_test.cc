// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_random.h"

#include <cerrno>
#include <set>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/forbid.h"

namespace verbena {
namespace {

// RFC 8439, appendix A.1, test vectors 1 to 3: nonce zero.
TEST(KernelRandom, ExpandsAsTheStandardSays) {
  std::array<uint32_t, 16> block{};
  detail::chacha20_block({}, 0, block.data());
  EXPECT_EQ(block[0], 0xade0b876u);
  EXPECT_EQ(block[15], 0x8665eeb2u);
  detail::chacha20_block({}, 1, block.data());
  EXPECT_EQ(block[0], 0xbee7079fu);
  EXPECT_EQ(block[15], 0x6f4d794bu);
  detail::chacha20_block({0, 0, 0, 0, 0, 0, 0, 0x01000000}, 1, block.data());
  EXPECT_EQ(block[0], 0x2452eb3au);
}

TEST(KernelRandom, DoesNotRepeat) {
  KernelRandom one;
  KernelRandom other;
  ASSERT_EQ(one.seed(), 0);
  ASSERT_EQ(other.seed(), 0);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(one.next()).second);
    EXPECT_TRUE(seen.insert(other.next()).second);
  }
}

// The number of the step that went wrong, or 0.
[[nodiscard]] int seeds_without(bool device) {
  KernelRandom before;
  if (before.seed() != 0) return 1;
  if (!testing::forbid(SYS_getrandom, EPERM)) return testing::kCannotForbid;
  KernelRandom random;
  if (random.seed() != 0 || random.next() == random.next()) return 2;
  if (device) return 0;
  if (!testing::forbid(SYS_openat, EACCES)) return testing::kCannotForbid;
  if (random.seed() != EACCES) return 3;
  for (int i = 0; i < 1000; ++i) (void)before.next();  // has what it needs
  return 0;
}

TEST(KernelRandom, FindsAnotherWayOrSaysWhyNot) {
  for (const bool device : {true, false}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(seeds_without(device));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == testing::kCannotForbid) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

}  // namespace
}  // namespace verbena
