// SPDX-License-Identifier: Apache-2.0
#include "store/error.h"

#include <set>

#include <gtest/gtest.h>

namespace verbena::store {
namespace {

// Scripts look for them: one word each, none twice.
TEST(Error, NamesOfCodes) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::kLogFull); ++code) {
    const std::string name = name_of(static_cast<Code>(code));
    EXPECT_EQ(name.find(' '), std::string::npos);
    EXPECT_NE(name, "unknown");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_STREQ(name_of(Code::kReadOnly), "read-only");
}

TEST(Error, ObjectIdsAsText) {
  EXPECT_EQ(text_of({0, 0}), "0:0");
  EXPECT_EQ(text_of({~uint64_t{0}, 7}), "18446744073709551615:7");
}

}  // namespace
}  // namespace verbena::store
