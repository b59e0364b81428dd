// SPDX-License-Identifier: Apache-2.0
// Random histories in front of a tier: cache and model agree, also after crashes.
#include <filesystem>

#include "backend/directory_tier.h"
#include "cache/model_testing.h"

namespace verbena::cache {
namespace {

TEST_P(CacheModelTest, AgreesWithTheModel) { run(GetParam(), 3); }
INSTANTIATE_TEST_SUITE_P(Seeds, CacheModelTest, ::testing::Range<uint64_t>(1, 1 + seeds(25)));

// In memory if possible: a sync costs nothing there.
std::string make_folder() {
  std::string name = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : ::testing::TempDir()) +
                     "verbena-cache-XXXXXX";
  return mkdtemp(name.data()) == nullptr ? std::string() : name;
}

struct Folder {
  std::string path = make_folder();
  Folder() = default;
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (!path.empty()) std::filesystem::remove_all(path);
  }
};

std::unique_ptr<backend::Tier> open_directory(const std::string& path) {
  auto opened = backend::DirectoryTier::open(path);
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
  return opened ? std::move(*opened) : nullptr;
}

class CacheOnDirectoryTest : private Folder, public CacheModelTest {
 protected:
  CacheOnDirectoryTest() : CacheModelTest(open_directory(path)) {}
};

TEST_P(CacheOnDirectoryTest, AgreesWithTheModel) { run(1000 + GetParam(), 3); }
INSTANTIATE_TEST_SUITE_P(Seeds, CacheOnDirectoryTest, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace verbena::cache
