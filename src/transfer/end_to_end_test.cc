// SPDX-License-Identifier: Apache-2.0
// Sender and receiver in one process, on the built-in device, with real files.
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "fabric/verbs_fabric.h"
#include "transfer/receiver.h"
#include "transfer/sender.h"

namespace verbena::transfer {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::string content(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

std::string random_text(uint64_t seed, size_t size) {
  SeededRandom random(seed);
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(text.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return text;
}

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
      if (!one.is_regular_file()) continue;
      EXPECT_EQ(fs::file_size(other), fs::file_size(one.path())) << other;
      EXPECT_TRUE(content_of(other) == content_of(one.path())) << other;
      EXPECT_EQ(fs::last_write_time(other), fs::last_write_time(one.path())) << other;
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
INSTANTIATE_TEST_SUITE_P(Ip, Transfers, ::testing::Values("127.0.0.1", "::1"),
                         [](const auto& host) { return host.index == 0 ? "V4" : "V6"; });

TEST_P(Transfers, FilesOfAllSizes) {
  uint64_t seed = 1;
  for (const size_t size : {0UL, 1UL, 262144UL, 262145UL, (1UL << 20) - 1, 1UL << 20,
                            (10UL << 20) - 1, 10UL << 20, 25UL << 20}) {
    put("file " + std::to_string(size), random_text(seed++, size));
  }
  ASSERT_NO_FATAL_FAILURE(receive());
  const auto sent = send();
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(totals_.stored, 9u);
  EXPECT_TRUE(failed_.empty());
  expect_same();
}

TEST_P(Transfers, FoldersOfManyFiles) {
  for (int i = 0; i < 1000; ++i) {
    put("tree/part " + std::to_string(i % 7) + "/deep/file " + std::to_string(i),
        random_text(static_cast<uint64_t>(i), static_cast<size_t>(i) * 7));
  }
  fs::permissions(root_ / "from/tree/part 3", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(root_ / "from/tree/part 2/deep/file 2", fs::perms::owner_read);
  ASSERT_NO_FATAL_FAILURE(receive());
  const auto sent = send({.streams = 2});
  ASSERT_TRUE(sent) << sent.error();
  expect_same();
}

TEST_P(Transfers, ExistingFilesAreKept) {
  put("small", "new");
  put("large", random_text(2, 3 << 20));
  std::ofstream(root_ / "to/small") << "old";
  std::ofstream(root_ / "to/large") << "old";
  ASSERT_NO_FATAL_FAILURE(receive());
  ASSERT_TRUE(send());
  EXPECT_EQ(failed_.size(), 2u);
  EXPECT_EQ(failed_["small"].first, Verdict::kExists);
  EXPECT_EQ(failed_["large"].first, Verdict::kExists);
  EXPECT_EQ(content_of(root_ / "to/small"), "old");
  EXPECT_EQ(content_of(root_ / "to/large"), "old");
  failed_.clear();
  ASSERT_NO_FATAL_FAILURE(receive({}, {.overwrite = true, .sync = true}));
  ASSERT_TRUE(send());
  EXPECT_TRUE(failed_.empty());
  expect_same();
}

// More of them than are given to a connection at once, and a folder whose turn comes behind them.
TEST_P(Transfers, FilesThatAreGoneHoldUpNothing) {
  for (int i = 0; i < 600; ++i) put("tree/gone/" + std::to_string(i), "content");
  ASSERT_NO_FATAL_FAILURE(receive());
  listed_ = [this] {
    for (int i = 0; i < 600; ++i) fs::remove(root_ / "from/tree/gone" / std::to_string(i));
  };
  const auto sent = send();
  EXPECT_TRUE(sent) << sent.error();
  EXPECT_EQ(failed_.size(), 600u);
  EXPECT_EQ(totals_.stored, 2u);
  expect_same();
}

TEST_P(Transfers, SecretsMustAgree) {
  put("file", "content");
  ASSERT_NO_FATAL_FAILURE(receive({.secret = "one"}));
  EXPECT_FALSE(send());
  EXPECT_FALSE(send({.secret = "two"}));
  EXPECT_TRUE(fs::is_empty(root_ / "to"));
  const auto sent = send({.secret = "one"});
  EXPECT_TRUE(sent) << sent.error();
  expect_same();
  ASSERT_NO_FATAL_FAILURE(receive());
  EXPECT_FALSE(send({.secret = "one"}));
}

TEST_P(Transfers, SparseFilesStaySparse) {
  put("sparse", "");
  fs::resize_file(root_ / "from/sparse", 64 << 20);
  {
    std::fstream file(root_ / "from/sparse", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(33 << 20);
    file << "in the middle";
  }
  ASSERT_NO_FATAL_FAILURE(receive());
  ASSERT_TRUE(send());
  expect_same();
  EXPECT_LE(totals_.sent, 2u << 20);
  struct stat status{};
  ASSERT_EQ(stat((root_ / "to/sparse").c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4 << 20);
}

}  // namespace
}  // namespace verbena::transfer
