// SPDX-License-Identifier: Apache-2.0
// A cache in front of a pool of a real cluster, whose directory VERBENA_TEST_CEPH names, against a
// model. Each seed has a namespace of its own.
#include <cstdlib>

#include "backend/rados_tier.h"
#include "cache/model_testing.h"

namespace verbena::cache {
namespace {

std::unique_ptr<backend::Tier> open_pool() {
  const char* const directory = std::getenv("VERBENA_TEST_CEPH");
  if (directory == nullptr) return nullptr;
  static int number = 0;
  backend::RadosOptions options;
  options.pool = "test";
  options.name_space = "cache " + std::to_string(++number);
  options.conf = std::string(directory) + "/ceph.conf";
  auto opened = backend::RadosTier::open(options);
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
  return opened ? std::move(*opened) : nullptr;
}

class CacheOnPoolTest : public CacheModelTest {
 protected:
  CacheOnPoolTest() : CacheModelTest(open_pool()) {}
};

TEST_P(CacheOnPoolTest, AgreesWithTheModel) {
  if (!other_) GTEST_SKIP() << "VERBENA_TEST_CEPH names no cluster";
  run(2000 + GetParam(), 2);
}
INSTANTIATE_TEST_SUITE_P(Seeds, CacheOnPoolTest, ::testing::Range<uint64_t>(1, 4));

}  // namespace
}  // namespace verbena::cache
