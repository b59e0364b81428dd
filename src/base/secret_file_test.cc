// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace verbena {
namespace {

class SecretFileTest : public ::testing::Test {
 protected:
  SecretFileTest() {
    std::string name = ::testing::TempDir() + "verbena-secret-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~SecretFileTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& content) const {
    std::ofstream(folder_ / "secret", std::ios::binary) << content;
    allow(std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return folder_ / "secret";
  }
  void allow(std::filesystem::perms who) const {
    std::filesystem::permissions(folder_ / "secret", who);
  }
  std::filesystem::path folder_;
};

TEST_F(SecretFileTest, IsAllBytesButTheLastNewline) {
  EXPECT_EQ(read_secret(file("abc"))->secret, "abc");
  EXPECT_EQ(read_secret(file("abc\n"))->secret, "abc");
  EXPECT_EQ(read_secret(file("a b\n\n"))->secret, "a b\n");
  const std::string binary("\0\1\xff", 3);
  EXPECT_EQ(read_secret(file(binary))->secret, binary);
  EXPECT_EQ(read_secret(file(std::string(4096, 'a') + "\n"))->secret.size(), 4096U);
}

TEST_F(SecretFileTest, IsNeitherEmptyNorHuge) {
  EXPECT_FALSE(read_secret(file("")));
  EXPECT_FALSE(read_secret(file("\n")));
  EXPECT_FALSE(read_secret(file(std::string(4097, 'a'))));
  EXPECT_FALSE(read_secret(file(std::string(1 << 20, 'a'))));
  EXPECT_FALSE(read_secret(folder_));
  EXPECT_FALSE(read_secret(folder_ / "missing"));
}

TEST_F(SecretFileTest, IsNotWaitedForIfItMustBeAFile) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_secret(fifo, SecretSource::kFile).error(),
            fifo + ": cannot be used as a secret: it is not a file that can be read again");
  EXPECT_FALSE(read_secret("/dev/zero", SecretSource::kFile));
  EXPECT_FALSE(read_secret(folder_, SecretSource::kFile));
  EXPECT_EQ(read_secret(file("abc"), SecretSource::kFile)->secret, "abc");
}

TEST_F(SecretFileTest, ThatOthersCanReadIsNoticed) {
  const std::string path = file("abc");
  EXPECT_FALSE(read_secret(path)->exposed);
  allow(std::filesystem::perms::owner_read | std::filesystem::perms::group_read);
  EXPECT_TRUE(read_secret(path)->exposed);
}

}  // namespace
}  // namespace verbena
