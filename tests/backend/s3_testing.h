// SPDX-License-Identifier: Apache-2.0
// For tests on a real S3 service, whose address VERBENA_TEST_S3 has (with-s3 starts one).
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "backend/s3_client.h"
#include "backend/s3_tier.h"
#include "backend/s3_update.h"
#include "backend/tier_testing.h"

namespace verbena::backend {

inline const Key kObject{"folder/object", {1, 2}};
inline constexpr uint64_t kPieceBytes = kS3PieceParts * kPartBytes;

// Each test has a prefix of its own in the bucket.
class S3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const endpoint = std::getenv("VERBENA_TEST_S3");
    if (endpoint == nullptr) GTEST_SKIP() << "VERBENA_TEST_S3 names no service";
    options_ = {.bucket = "test",
                .prefix = ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                .endpoint = endpoint,
                .timeout_s = 20,
                .lease_s = 60};
    auto client = S3Client::connect(options_);
    ASSERT_TRUE(client.has_value()) << client.error().what;
    client_ = std::move(*client);
  }
  std::unique_ptr<S3Tier> open() {
    auto tier = S3Tier::open(options_);
    EXPECT_TRUE(tier.has_value()) << tier.error().what;
    return tier ? std::move(*tier) : nullptr;
  }
  // Waits until the lease of a process that is gone, or stopped, has ended.
  std::unique_ptr<S3Tier> take_over() {
    for (int tries = 0; tries < 300; ++tries) {
      auto tier = S3Tier::open(options_);
      if (tier) return std::move(*tier);
      EXPECT_EQ(tier.error().code, Code::kInUse) << tier.error().what;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    ADD_FAILURE() << "the lease does not end";
    return nullptr;
  }
  State write(Tier& tier, const Key& key, const Bytes& bytes) {
    const auto before = tier.state(key);
    NewState wanted{std::nullopt, {++version_, bytes.size(), version_}};
    if (before) wanted.base = before->version;
    const auto done = write_object(tier, key, wanted, bytes);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return wanted.state;
  }
  static void expect(Tier& tier, const Key& key, const Bytes& bytes) {
    const auto read = read_object(tier, key);
    ASSERT_TRUE(read.has_value()) << read.error().what;
    EXPECT_TRUE(*read == bytes);
  }
  // As another program does it.
  void put_plain(const std::string& path, std::string_view bytes, const S3Headers& headers = {}) {
    S3Request request;
    request.method = "PUT";
    request.path = path;
    request.body = bytes;
    request.headers = headers;
    const auto answer = client_->ask(request, "test");
    EXPECT_TRUE(answer.has_value()) << answer.error().what;
  }
  S3Answer get_plain(const std::string& path) {
    S3Request request;
    request.path = path;
    request.max_answer = size_t{64} << 20;
    auto answer = client_->ask(request, "test");
    EXPECT_TRUE(answer.has_value()) << answer.error().what;
    return answer ? std::move(*answer) : S3Answer{};
  }
  std::vector<std::string> keys(std::string_view begin) {
    std::vector<std::string> all;
    const auto done = client_->each_page(begin, [&](const std::vector<std::string>& paths) {
      all.insert(all.end(), paths.begin(), paths.end());
      return Result<bool>(true);
    });
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return all;
  }
  size_t count_uploads() {
    S3Request request;
    request.of_bucket = true;
    request.query = {{"prefix", options_.prefix + "/"}, {"uploads", ""}};
    const auto answer = client_->ask(request, "test");
    EXPECT_TRUE(answer.has_value()) << answer.error().what;
    if (!answer) return 0;
    size_t count = 0;
    for (size_t at = 0; (at = answer->body.find("<UploadId>", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  }

  S3Options options_;
  std::unique_ptr<S3Client> client_;
  SeededRandom random_{3};
  uint64_t version_ = 100;
};

}  // namespace verbena::backend
