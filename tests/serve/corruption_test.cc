// SPDX-License-Identifier: Apache-2.0
// A byte is flipped somewhere between the client's buffer and the medium, behind the device's own
// checks: nothing wrong is stored or returned. A flip that happens once is mended by a repetition;
// one that stays is an error that names the place.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/random.h"
#include "medium/testing.h"
#include "protocol/io.h"
#include "serve/flipping_fabric.h"
#include "served_store.h"

namespace verbena::serve {
namespace {

using client::Client;
using client::Code;
using client::ObjectRef;
using client::random_bytes;
using client::ServedStore;
using protocol::Status;
using Bytes = std::vector<uint8_t>;

// How often something is still to be spoilt.
class Budget {
 public:
  void set(int times) { left_ = times; }
  [[nodiscard]] bool take() {
    if (left_ <= 0) return false;
    --left_;
    ++spent_;
    return true;
  }
  [[nodiscard]] int spent() const { return spent_; }

 private:
  std::atomic<int> left_{0};
  std::atomic<int> spent_{0};
};

constexpr int kAlways = 1'000'000;

// Messages of reads and writes with this much data; the position of a byte of it.
bool has_data(std::span<const uint8_t> message, protocol::MessageType type, size_t bytes) {
  return load_be64(message.data()) == static_cast<uint64_t>(type) && message.size() > bytes;
}

// By how much data there is: with the message, or by RDMA.
class Corruption : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(client_);
    const auto made = client_->create("x");
    ASSERT_TRUE(made);
    object_ = *made;
    ASSERT_TRUE(write(before_));
  }
  [[nodiscard]] size_t size() const { return GetParam(); }
  [[nodiscard]] bool inline_data() const { return size() <= 32768; }
  [[nodiscard]] client::Result<client::Transferred> write(const Bytes& bytes) {
    return client_->write(ObjectRef::by(object_), 0, bytes);
  }
  // What the store has, looked at without the network.
  [[nodiscard]] Bytes stored() {
    Bytes bytes(size());
    const auto got = served_.store().read(object_, 0, bytes);
    EXPECT_TRUE(got && *got == size());
    return bytes;
  }
  // Spoilt once: it is done again. Always: it is refused, and what was there stays.
  void expect_write_is_safe() {
    budget_.set(1);
    const auto once = write(after_);
    EXPECT_TRUE(once) << once.error().what;
    EXPECT_EQ(budget_.spent(), 1);
    EXPECT_EQ(client_->repeated(), 1U);
    EXPECT_EQ(stored(), after_);
    budget_.set(kAlways);
    const auto always = write(before_);
    budget_.set(0);
    ASSERT_FALSE(always);
    EXPECT_EQ(always.error().status, Status::kCorrupted) << always.error().what;
    EXPECT_FALSE(always.error().what.empty());
    std::cout << always.error().what << "\n";
    EXPECT_EQ(stored(), after_);
    EXPECT_TRUE(write(before_));
    EXPECT_EQ(stored(), before_);
  }
  void expect_read_is_safe(bool by_rdma_alone) {
    Bytes back(size());
    budget_.set(1);
    const auto once = client_->read(ObjectRef::by(object_), 0, back);
    ASSERT_TRUE(once) << once.error().what;
    EXPECT_EQ(budget_.spent(), 1);
    EXPECT_EQ(client_->repeated(), 1U);
    EXPECT_EQ(back, before_);
    budget_.set(kAlways);
    const auto always = client_->read(ObjectRef::by(object_), 0, back);
    budget_.set(0);
    if (by_rdma_alone) {
      // The repetition comes with the messages.
      ASSERT_TRUE(always) << always.error().what;
      EXPECT_EQ(back, before_);
      return;
    }
    ASSERT_FALSE(always);
    EXPECT_EQ(always.error().code, Code::kCorrupted) << always.error().what;
    std::cout << always.error().what << "\n";
  }

  const Bytes before_ = random_bytes(GetParam(), 1);
  const Bytes after_ = random_bytes(GetParam(), 2);
  Budget budget_;
  Flips server_flips_;
  Flips client_flips_;
  ServedStore served_{
      {}, {}, {}, std::make_unique<FlippingFabric>(client::test_fabric(), server_flips_)};
  std::unique_ptr<Client> client_ =
      served_.connect({}, std::make_unique<FlippingFabric>(client::test_fabric(), client_flips_));
  ObjectId object_{};
};
INSTANTIATE_TEST_SUITE_P(Sizes, Corruption, ::testing::Values(100, 4048, 32768, 32769, 1'000'000));

// The hooks are set while nothing is under way, and the spoiling begins with the budget.
TEST_P(Corruption, InTheClientsBufferBehindTheCrc) {
  Bytes data = after_;
  // The client's own thread looks for something to send at any time, also before the CRC is
  // computed. The thread that writes does so first when the request is there, with its CRC.
  client_flips_.before_message = [&, writer = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == writer && budget_.take()) data[size() / 2] ^= 0x04;
  };
  budget_.set(1);
  const auto written = client_->write(ObjectRef::by(object_), 0, data);
  budget_.set(0);
  EXPECT_EQ(budget_.spent(), 1);
  ASSERT_FALSE(written) << "data was stored that nobody wrote";
  EXPECT_EQ(written.error().status, Status::kCorrupted) << written.error().what;
  EXPECT_EQ(stored(), before_);
  // With a CRC of the caller's own, from before.
  const auto wrong = client_->write(ObjectRef::by(object_), 0, data, {.crc = 0x12345678});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().status, Status::kCorrupted) << wrong.error().what;
  EXPECT_EQ(stored(), before_);
}

TEST_P(Corruption, OfWrittenDataOnTheWire) {
  if (inline_data()) {
    server_flips_.received = [&](std::span<uint8_t> message) {
      if (!has_data(message, protocol::IoRequest::kWriteType, size())) return;
      if (budget_.take()) message[message.size() - 5 - size() / 2] ^= 0x01;
    };
  } else {
    server_flips_.read = [&](std::span<const fabric::Local> memory) {
      if (budget_.take()) memory.back().memory[memory.back().bytes / 2] ^= 0x80;
    };
  }
  expect_write_is_safe();
}

TEST_P(Corruption, OfReadDataOnTheWire) {
  if (inline_data()) {
    client_flips_.received = [&](std::span<uint8_t> message) {
      if (!has_data(message, protocol::IoResponse::kType, size())) return;
      if (budget_.take()) message[message.size() - 5 - size() / 2] ^= 0x01;
    };
    return expect_read_is_safe(false);
  }
  // What arrives is spoilt, not what is stored.
  std::atomic<uint8_t*> spoilt{nullptr};
  server_flips_.written = [&](std::span<const fabric::Local> memory) {
    if (!budget_.take()) return;
    uint8_t* const at = memory.front().memory + 7;
    *at ^= 0x20;
    spoilt = at;
  };
  // The chunk is whole again when the response goes.
  server_flips_.before_message = [&] {
    if (uint8_t* const at = spoilt.exchange(nullptr)) *at ^= 0x20;
  };
  expect_read_is_safe(true);
  EXPECT_EQ(stored(), before_);
}

// Of anything but user data: the session ends and is resumed, and the request takes effect once.
TEST_P(Corruption, OfAHead) {
  const auto spoil = [&](std::span<uint8_t> message) {
    const uint64_t type = load_be64(message.data());
    if (type < 100 || !budget_.take()) return;
    message[40] ^= 0x02;
  };
  for (Flips* const flips : {&server_flips_, &client_flips_}) {
    flips->received = spoil;
    budget_.set(1);
    const auto written = write(after_);
    EXPECT_TRUE(written) << written.error().what;
    budget_.set(1);
    Bytes back(size());
    const auto read = client_->read(ObjectRef::by(object_), 0, back);
    EXPECT_TRUE(read) << read.error().what;
    EXPECT_EQ(back, after_);
    ASSERT_TRUE(client_->flush());
    flips->received = nullptr;
  }
  EXPECT_EQ(budget_.spent(), 4);
  EXPECT_EQ(client_->reconnects(), 4U);
}

// Of a chunk, while it is mapped.
TEST_P(Corruption, InTheServersMemory) {
  {
    const auto chunks = served_.store().prepare_read(object_, 0, size());
    ASSERT_TRUE(chunks);
    chunks->pieces().back().memory[3] ^= 0x10;
  }
  Bytes back(size());
  const auto read = client_->read(ObjectRef::by(object_), 0, back);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().status, Status::kDamaged) << read.error().what;
  EXPECT_NE(read.error().what.find("offset"), std::string::npos) << read.error().what;
  EXPECT_NE(read.error().what.find("chunk"), std::string::npos) << read.error().what;
  std::cout << read.error().what << "\n";
  // A write beside it does not give it a good CRC.
  EXPECT_TRUE(client_->write(ObjectRef::by(object_), size() + 5000, Bytes(10)));
  EXPECT_FALSE(client_->read(ObjectRef::by(object_), 0, back));
  // What is written anew as a whole is good again.
  ASSERT_TRUE(client_->truncate(ObjectRef::by(object_), 0));
  ASSERT_TRUE(write(after_));
  EXPECT_TRUE(client_->read(ObjectRef::by(object_), 0, back));
  EXPECT_EQ(back, after_);
}

// Flips a bit of the first of these bytes, if the file has them.
bool spoil(const std::filesystem::path& file, const std::string& wanted) {
  std::string bytes(std::filesystem::file_size(file), 0);
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const size_t at = bytes.find(wanted);
  if (!stream || at == std::string::npos) return false;
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(bytes[at] ^ 1));
  return true;
}

// In the file of the store, while nobody has it open.
TEST(CorruptionOnTheMedium, IsNamed) {
  const medium::TemporaryFolder folder;
  const Bytes data = random_bytes(200'000, 3);
  {
    const ServedStore served({}, folder.path());
    const auto client = served.connect();
    ASSERT_TRUE(client);
    ASSERT_TRUE(client->create("x"));
    ASSERT_TRUE(client->write(ObjectRef::by("x"), 0, data));
  }
  const std::string wanted(data.begin() + 100'000, data.begin() + 100'032);
  bool found = false;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path())) {
    found = found || (file.is_regular_file() && spoil(file.path(), wanted));
  }
  ASSERT_TRUE(found);
  const ServedStore served({}, folder.path());
  const auto client = served.connect();
  ASSERT_TRUE(client);
  Bytes back(data.size());
  for (const size_t length : {size_t{200'000}, size_t{20'000}}) {
    const auto read = client->read(ObjectRef::by("x"), 90'000, std::span(back).first(length));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().status, Status::kDamaged) << read.error().what;
    EXPECT_NE(read.error().what.find("offset"), std::string::npos) << read.error().what;
  }
  EXPECT_TRUE(client->read(ObjectRef::by("x"), 0, std::span(back).first(90'000)));
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 90'000, back.begin()));
}

}  // namespace
}  // namespace verbena::serve
