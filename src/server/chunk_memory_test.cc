// SPDX-License-Identifier: Apache-2.0
#include "server/chunk_memory.h"

#include <array>
#include <map>

#include <gtest/gtest.h>

namespace verbena::server {
namespace {

// Knows what is registered, and nothing else.
class Registrations final : public fabric::Fabric {
 public:
  [[nodiscard]] std::string name() const override { return "registrations"; }
  [[nodiscard]] size_t message_bytes() const override { return 0; }
  [[nodiscard]] fabric::Result<fabric::Endpoint> listen(const fabric::Endpoint& at) override {
    return at;
  }
  [[nodiscard]] fabric::ConnectionId connect(const fabric::Endpoint& /*to*/,
                                             std::span<const uint8_t> /*data*/) override {
    return 1;
  }
  void write_immediate(fabric::ConnectionId /*connection*/, std::span<const uint8_t> /*from*/,
                       const fabric::Remote& /*to*/, uint32_t /*immediate*/,
                       fabric::OperationId /*operation*/) override {}
  [[nodiscard]] fabric::Result<fabric::Key> add_memory(uint8_t* memory, size_t /*bytes*/,
                                                       bool /*remote*/) override {
    if (refuse) return fail(std::string("refused"));
    registered[next_] = memory;
    return fabric::Key{next_++, 0};
  }
  void remove_memory(const fabric::Key& key) override {
    EXPECT_EQ(registered.erase(key.number), 1U);
  }
  [[nodiscard]] std::span<uint8_t> message_room(fabric::ConnectionId /*connection*/) override {
    return {};
  }
  void send(fabric::ConnectionId /*connection*/, size_t /*bytes*/) override {}
  void flush() override {}
  void read(fabric::ConnectionId /*connection*/, std::span<const fabric::Remote> /*from*/,
            std::span<const fabric::Local> /*to*/, fabric::OperationId /*operation*/) override {}
  void write(fabric::ConnectionId /*connection*/, std::span<const fabric::Local> /*from*/,
             std::span<const fabric::Remote> /*to*/, fabric::OperationId /*operation*/) override {}
  void end(fabric::ConnectionId /*connection*/) override {}
  size_t poll(fabric::Handler& /*handler*/) override { return 0; }
  void arm() override {}
  void woken() override {}
  [[nodiscard]] int fd() const override { return -1; }

  [[nodiscard]] size_t times(const uint8_t* memory) const {
    size_t count = 0;
    for (const auto& [key, its] : registered) count += its == memory ? 1 : 0;
    return count;
  }

  bool refuse = false;
  std::map<uint64_t, const uint8_t*> registered;

 private:
  uint64_t next_ = 1;
};

class ChunkMemoryTest : public ::testing::Test {
 protected:
  std::array<uint8_t, 4096> one_{};
  std::array<uint8_t, 4096> other_{};
  Registrations fabric_;
  ChunkMemory memory_;
};

TEST_F(ChunkMemoryTest, WhatIsRemovedIsNotRegisteredAnyMore) {
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  ASSERT_TRUE(memory_.add(other_.data(), other_.size()));
  ASSERT_TRUE(memory_.refresh(fabric_));
  EXPECT_EQ(fabric_.times(one_.data()), 1U);
  memory_.remove(one_.data(), one_.size());
  // At once: its pages go back to the system now.
  EXPECT_EQ(fabric_.times(one_.data()), 0U);
  EXPECT_EQ(fabric_.times(other_.data()), 1U);
}

// A file that goes, comes again at the same place, and goes, while no data is moved.
TEST_F(ChunkMemoryTest, WhatComesAndGoesUnusedIsNeverRegistered) {
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  ASSERT_TRUE(memory_.refresh(fabric_));
  memory_.remove(one_.data(), one_.size());
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  memory_.remove(one_.data(), one_.size());
  ASSERT_TRUE(memory_.refresh(fabric_));
  EXPECT_EQ(fabric_.times(one_.data()), 0U);
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  ASSERT_TRUE(memory_.refresh(fabric_));
  EXPECT_EQ(fabric_.times(one_.data()), 1U);
}

TEST_F(ChunkMemoryTest, WhatIsRefusedIsTriedAgain) {
  ASSERT_TRUE(memory_.refresh(fabric_));
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  fabric_.refuse = true;
  EXPECT_FALSE(memory_.refresh(fabric_));
  fabric_.refuse = false;
  EXPECT_TRUE(memory_.refresh(fabric_));
  EXPECT_EQ(fabric_.times(one_.data()), 1U);
}

TEST_F(ChunkMemoryTest, OutlivesTheFabric) {
  ASSERT_TRUE(memory_.add(one_.data(), one_.size()));
  ASSERT_TRUE(memory_.refresh(fabric_));
  memory_.forget_fabric();
  memory_.remove(one_.data(), one_.size());
  EXPECT_EQ(fabric_.times(one_.data()), 1U);
}

}  // namespace
}  // namespace verbena::server
