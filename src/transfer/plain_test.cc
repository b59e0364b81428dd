// SPDX-License-Identifier: Apache-2.0
// Plain mode's machines opposite peers that break its rules.
#include "transfer/plain.h"

#include <gtest/gtest.h>

namespace verbena::transfer {
namespace {

using Buffer = std::vector<uint8_t>;

Buffer buffer_with(std::string_view text) {
  Buffer buffer(100);
  std::ranges::copy(text, buffer.begin());
  return buffer;
}
template <typename T>
const T* last_of(const auto& actions) {
  return actions.empty() ? nullptr : std::get_if<T>(&actions.back());
}

class PlainReceiver : public ::testing::Test {
 protected:
  // Ready for data.
  void open() {
    machine_.start(1, 2);
    machine_.on_immediate(2, buffer_with("a"));
    machine_.on_done("");
    ASSERT_NE(last_of<PlainReceiving::Reply>(machine_.take_actions()), nullptr);
  }
  std::string why() {
    const auto actions = machine_.take_actions();
    const auto* const end = last_of<PlainReceiving::End>(actions);
    return end == nullptr ? "" : end->why;
  }
  PlainReceiving machine_{250};
};

TEST_F(PlainReceiver, NamesAreChecked) {
  for (const std::string_view name : {"", "/a", "../a", "a\n", "a//b", ".verbena-a"}) {
    PlainReceiving machine(100);
    machine.on_immediate(static_cast<uint32_t>(name.size()), buffer_with(name));
    const auto actions = machine.take_actions();
    EXPECT_NE(last_of<PlainReceiving::End>(actions), nullptr) << name;
  }
}

TEST_F(PlainReceiver, AWriteOfMoreThanTheBuffer) {
  ASSERT_NO_FATAL_FAILURE(open());
  machine_.on_immediate(101, Buffer(100));
  EXPECT_EQ(why(), "the sender says that it wrote more than there is room");
}

TEST_F(PlainReceiver, WritesOutOfTurn) {
  ASSERT_NO_FATAL_FAILURE(open());
  machine_.on_immediate(100, Buffer(100));
  machine_.on_immediate(100, Buffer(100));
  EXPECT_EQ(why(), "the sender writes before it was told to");
  machine_.on_done("");  // the write that was under way
  EXPECT_TRUE(machine_.take_actions().empty());
}

TEST_F(PlainReceiver, AFileThatIsTooLarge) {
  ASSERT_NO_FATAL_FAILURE(open());
  for (int i = 0; i < 2; ++i) {
    machine_.on_immediate(100, Buffer(100));
    machine_.on_done("");
  }
  EXPECT_EQ(why(), "");
  machine_.on_immediate(51, Buffer(100));
  EXPECT_EQ(why(), "the file is too large");
}

// What comes behind the end does not undo what is stored.
TEST_F(PlainReceiver, WritesBehindTheEnd) {
  ASSERT_NO_FATAL_FAILURE(open());
  machine_.on_immediate(0, Buffer(100));
  EXPECT_TRUE(machine_.complete());
  machine_.on_immediate(5, Buffer(100));
  machine_.on_done("");
  EXPECT_EQ(why(), "");
  EXPECT_TRUE(machine_.stored());
  machine_.on_immediate(5, Buffer(100));
  EXPECT_TRUE(machine_.stored());
}

TEST(PlainSender, MessagesOutOfOrder) {
  using Kind = PlainMessage::Kind;
  const std::initializer_list<std::vector<Kind>> orders{
      {Kind::kReady},
      {Kind::kDone},
      {Kind::kMemory, Kind::kMemory},
      {Kind::kMemory, Kind::kDone},
      {Kind::kMemory, Kind::kReady, Kind::kReady}};
  for (const auto& order : orders) {
    PlainSending machine("a");
    for (const Kind kind : order) machine.on_message(encode(PlainMessage{kind}));
    const auto actions = machine.take_actions();
    const auto* const finished = last_of<PlainSending::Finished>(actions);
    ASSERT_NE(finished, nullptr);
    EXPECT_EQ(finished->why_not, "the receiver's messages are out of order");
  }
}

TEST(PlainSender, NamesThatReceiversHaveNoRoomFor) {
  for (const size_t length : {255u, 256u}) {
    PlainSending machine(std::string(length, 'n'));
    machine.on_message(encode(PlainMessage{PlainMessage::Kind::kMemory}));
    const auto actions = machine.take_actions();
    EXPECT_EQ(last_of<PlainSending::Finished>(actions) != nullptr, length == 256);
  }
}

}  // namespace
}  // namespace verbena::transfer
