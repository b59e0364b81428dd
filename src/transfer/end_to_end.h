// SPDX-License-Identifier: Apache-2.0
// For tests: sender and receiver in one process, on the built-in device, with real files.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/random.h"
#include "fabric/verbs_fabric.h"
#include "transfer/receiver.h"
#include "transfer/sender.h"

namespace verbena::transfer {

namespace fs = std::filesystem;

inline std::string content_of(const fs::path& path) {
  std::string content(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

inline std::string random_text(uint64_t seed, size_t size) {
  SeededRandom random(seed);
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(text.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return text;
}

// By the address of the receiver.
class Transfers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("verbena-transfer-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "from");
    fs::create_directories(root_ / "to");
  }
  void TearDown() override {
    stop();
    fs::remove_all(root_);
  }

  static std::unique_ptr<fabric::Fabric> open_fabric() {
    auto fabric = fabric::open_verbs_fabric(
        {.libraries = VERBENA_LIBRARIES, .message_bytes = kMaxReplyBytes, .receives = 256});
    EXPECT_TRUE(fabric) << fabric.error();
    return fabric ? std::move(*fabric) : nullptr;
  }
  void receive(ReceiverOptions options = {}, const SinkOptions& sink = {}) {
    stop();
    options.listen = {GetParam(), 0};
    auto folder = Sink::open(root_ / "to", sink);
    ASSERT_TRUE(folder) << folder.error();
    receiver_ = std::make_unique<Receiver>(std::move(options), open_fabric(), std::move(*folder));
    const auto at = receiver_->start();
    ASSERT_TRUE(at) << at.error();
    port_ = at->port;
    thread_ = std::thread([this] { receiver_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    receiver_->stop();
    thread_.join();
    receiver_.reset();
  }
  Result<void, std::string> send(SenderOptions options = {}) {
    options.to = {GetParam(), port_};
    options.on_failed = [this](const std::string& path, Verdict verdict, const std::string& why) {
      failed_[path] = {verdict, why};
    };
    Sender sender(std::move(options), open_fabric());
    std::vector<SourceEntry> entries;
    for (const auto& one : fs::directory_iterator(root_ / "from")) {
      const auto listed = list_source(
          one.path(), [&](SourceEntry&& entry) { entries.push_back(std::move(entry)); },
          [](const std::string& path, const std::string& why) { ADD_FAILURE() << path << why; });
      EXPECT_TRUE(listed) << listed.error();
    }
    if (listed_) listed_();
    auto result = sender.send(std::move(entries));
    totals_ = sender.totals();
    return result;
  }
  void put(const std::string& name, const std::string& content) {
    fs::create_directories((root_ / "from" / name).parent_path());
    std::ofstream(root_ / "from" / name, std::ios::binary) << content;
  }
  void expect_same() const {
    size_t count = 0;
    for (const auto& one : fs::recursive_directory_iterator(root_ / "from")) {
      const auto other = root_ / "to" / one.path().lexically_relative(root_ / "from");
      ++count;
      ASSERT_EQ(fs::status(other).type(), one.status().type()) << other;
      EXPECT_EQ(fs::status(other).permissions(), one.status().permissions()) << other;
      EXPECT_EQ(fs::last_write_time(other), fs::last_write_time(one.path())) << other;
      if (!one.is_regular_file()) continue;
      EXPECT_EQ(fs::file_size(other), fs::file_size(one.path())) << other;
      EXPECT_TRUE(content_of(other) == content_of(one.path())) << other;
    }
    for (const auto& one : fs::recursive_directory_iterator(root_ / "to")) {
      --count;
      EXPECT_FALSE(one.path().filename().string().starts_with(".verbena-")) << one.path();
    }
    EXPECT_EQ(count, 0u) << "files of other names";
  }

  fs::path root_;
  std::unique_ptr<Receiver> receiver_;
  std::thread thread_;
  uint16_t port_ = 0;
  SenderTotals totals_;
  std::function<void()> listed_;  // called between listing and sending
  std::map<std::string, std::pair<Verdict, std::string>> failed_;
};

}  // namespace verbena::transfer
