// SPDX-License-Identifier: Apache-2.0
#include "medium/words.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace verbena::medium {
namespace {

TEST(Words, SizesArePlain) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(uint64_t{64} << 20), "64 MiB");
  EXPECT_EQ(size_text((uint64_t{4} << 30) + (uint64_t{512} << 20)), "4.5 GiB");
  EXPECT_EQ(size_text(~uint64_t{0}), "15.9 EiB");
}

TEST(Words, TheAdviceNamesTheLimit) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &old), 0);
  const rlimit low{.rlim_cur = rlim_t{1} << 20, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const std::string advice = memlock_advice(uint64_t{64} << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &old), 0);
  EXPECT_NE(advice.find("64 MiB"), std::string::npos) << advice;
  EXPECT_NE(advice.find("it is 1 MiB"), std::string::npos) << advice;
  EXPECT_NE(advice.find("ulimit -l"), std::string::npos) << advice;
}

}  // namespace
}  // namespace verbena::medium
