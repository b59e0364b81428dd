// SPDX-License-Identifier: Apache-2.0
#include "store_cli/interrupts.h"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::store_cli {
namespace {

// In processes of their own: what signals do is the whole process's.
TEST(InterruptsDeathTest, TheFirstIsNotedAndTheSecondKills) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGINT);
        ::_exit(interrupted());
      },
      testing::ExitedWithCode(SIGINT), "");
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGTERM);
        ::usleep(300'000);
        std::raise(SIGTERM);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

// As timeout(1) sends them.
TEST(InterruptsDeathTest, ThoseThatComeTogetherAreOne) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        std::raise(SIGINT);
        ::_exit(interrupted());
      },
      testing::ExitedWithCode(SIGTERM), "");
}

TEST(InterruptsDeathTest, WhatWasIgnoredStaysSo) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        catch_interrupts();
        std::raise(SIGHUP);
        ::_exit(interrupted());
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace verbena::store_cli
