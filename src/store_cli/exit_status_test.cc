// SPDX-License-Identifier: Apache-2.0
#include "store_cli/exit_status.h"

#include <gtest/gtest.h>

namespace verbena::store_cli {
namespace {

TEST(ExitStatus, IsWhatTheManPageSays) {
  using store::Code;
  EXPECT_EQ(exit_status_of(Code::kIo), 1);
  EXPECT_EQ(exit_status_of(Code::kReadOnly), 1);
  EXPECT_EQ(exit_status_of(Code::kNoMemory), 1);
  EXPECT_EQ(exit_status_of(Code::kConflict), 1);
  EXPECT_EQ(exit_status_of(Code::kInvalid), 2);
  EXPECT_EQ(exit_status_of(Code::kNotFound), 3);
  EXPECT_EQ(exit_status_of(Code::kDamaged), 4);
  EXPECT_EQ(exit_status_of(Code::kFull), 5);
  EXPECT_EQ(exit_status_of(Code::kInUse), 6);
  EXPECT_EQ(exit_status_of(Code::kNoStore), 7);
  EXPECT_EQ(exit_status_of(Code::kExists), 8);
  EXPECT_EQ(exit_status_of(Code::kVersion), 9);
  EXPECT_EQ(exit_status_of(Code::kUnreachable), 10);
  EXPECT_EQ(exit_status_of(Code::kUnsupported), 1);
}

}  // namespace
}  // namespace verbena::store_cli
