// SPDX-License-Identifier: Apache-2.0
#include "transfer/end_to_end.h"

#include <sys/stat.h>

namespace verbena::transfer {
namespace {

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
    const auto folder = root_ / "from/tree/gone";
    const auto time = fs::last_write_time(folder);
    for (int i = 0; i < 600; ++i) fs::remove(folder / std::to_string(i));
    fs::last_write_time(folder, time);  // as it was listed
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
