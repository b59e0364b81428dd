// SPDX-License-Identifier: Apache-2.0
// A cache in front of a bucket of a real service, whose address VERBENA_TEST_S3 has, against a
// model. Each seed has a prefix of its own.
#include <cstdlib>

#include "backend/s3_tier.h"
#include "cache/model_testing.h"

namespace verbena::cache {
namespace {

std::unique_ptr<backend::Tier> open_bucket() {
  const char* const endpoint = std::getenv("VERBENA_TEST_S3");
  if (endpoint == nullptr) return nullptr;
  static int number = 0;
  backend::S3Options options;
  options.bucket = "test";
  options.prefix = "cache " + std::to_string(++number);
  options.endpoint = endpoint;
  auto opened = backend::S3Tier::open(options);
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
  return opened ? std::move(*opened) : nullptr;
}

class CacheOnBucketTest : public CacheModelTest {
 protected:
  CacheOnBucketTest() : CacheModelTest(open_bucket()) {}
};

TEST_P(CacheOnBucketTest, AgreesWithTheModel) {
  if (!other_) GTEST_SKIP() << "VERBENA_TEST_S3 names no service";
  run(3000 + GetParam(), 2);
}
INSTANTIATE_TEST_SUITE_P(Seeds, CacheOnBucketTest, ::testing::Range<uint64_t>(1, 2));

}  // namespace
}  // namespace verbena::cache
