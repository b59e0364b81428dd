// SPDX-License-Identifier: Apache-2.0
#include "transfer/path.h"

#include <gtest/gtest.h>

namespace verbena::transfer {
namespace {

TEST(Path, IsShownAsItIs) {
  EXPECT_EQ(shown("photos/a b.jpg"), "photos/a b.jpg");
  EXPECT_EQ(shown("Füße/写真/🦆"), "Füße/写真/🦆");
}

TEST(Path, WhatATerminalWouldActOnIsNotShown) {
  EXPECT_EQ(shown("a\x1b[2Jb\r\n\x7f"), "a?[2Jb???");
  EXPECT_EQ(shown("a\u009b2Jb"), "a?2Jb");          // CSI as one character
  EXPECT_EQ(shown("a\u202egpj.exe"), "a?gpj.exe");  // from right to left
  EXPECT_EQ(shown("a\u200fb\u061c"), "a?b?");
  EXPECT_EQ(shown(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(shown("\xff\xc3 \xe5\x86"), "?? ??");  // not UTF-8
}

TEST(Path, LongOnesAreCutBetweenCharacters) {
  std::string path(199, 'a');
  path += "üü";
  EXPECT_EQ(shown(path), std::string(199, 'a') + "ü...");
}

}  // namespace
}  // namespace verbena::transfer
