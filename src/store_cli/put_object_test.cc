// SPDX-License-Identifier: Apache-2.0
// Puts into a store that others change at the same moment.
#include "store_cli/put_object.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/malloc_backend.h"
#include "store_cli/testing.h"

namespace verbena::store_cli {
namespace {

// Somebody else is faster by a moment, once.
class SharedObjects : public PlainObjects {
 public:
  using PlainObjects::PlainObjects;
  std::function<void()> meanwhile;
  bool unreachable = false;
  int removes = 0;

  store::Result<void> write(store::ObjectId id, uint64_t offset,
                            std::span<const uint8_t> bytes) override {
    if (unreachable) return fail(store::Error{store::Code::kUnreachable, "no answer", {}});
    auto done = PlainObjects::write(id, offset, bytes);
    if (meanwhile) std::exchange(meanwhile, {})();
    return done;
  }
  store::Result<void> remove(store::ObjectId id) override {
    ++removes;
    return PlainObjects::remove(id);
  }
};

class PutObjectTest : public testing::Test {
 protected:
  PutObjectTest() {
    std::string name = testing::TempDir() + "verbena-put-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    medium::MallocOptions options;
    options.block_bytes = 64 * store::kChunkBytes;
    options.capacity = 32;
    SeededRandom random(7);
    store_ = std::move(
        store::Store::create(medium::make_malloc_backend(options).value(), {}, random).value());
    objects_ = std::make_unique<SharedObjects>(*store_);
  }
  ~PutObjectTest() override { std::filesystem::remove_all(folder_); }

  bool put(const std::string& content, PutRequest request) {
    std::ofstream(folder_ / "file") << content;
    auto input = InputFile::open(folder_ / "file").value();
    ProgressBar bar(false, "put", 0);
    Transferred transferred{bar};
    request.shown = "object";
    request.object = std::string("object");
    return put_object(*objects_, request, input, transferred, report_).has_value();
  }
  void make(const std::string& content) {
    const store::ObjectId id{7, next_++};
    ASSERT_TRUE(store_->create_object(id, "object"));
    ASSERT_TRUE(write(id, content));
  }
  bool write(store::ObjectId id, const std::string& content) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
    return store_->write(id, 0, {bytes, content.size()}).has_value();
  }
  [[nodiscard]] std::string content() const {
    std::string bytes(100, ' ');
    const auto got = store_->read(store_->find("object").value(), 0,
                                  {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
    return bytes.substr(0, got.value());
  }
  [[nodiscard]] size_t objects() const { return store_->list({}, 10)->size(); }

  std::filesystem::path folder_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<SharedObjects> objects_;
  Report report_{"put", {}};
  uint64_t next_ = 1;
};

TEST_F(PutObjectTest, ReplacesWhatOthersMadeMeanwhile) {
  objects_->meanwhile = [&] { make("theirs"); };
  EXPECT_TRUE(put("ours", {}));
  EXPECT_EQ(content(), "ours");
  EXPECT_EQ(objects(), 1U);
}

TEST_F(PutObjectTest, ThatIsToBeNewLeavesWhatOthersMadeMeanwhile) {
  objects_->meanwhile = [&] { make("theirs"); };
  EXPECT_FALSE(put("ours", {.only_new = true}));
  EXPECT_EQ(report_.finish(), kExists);
  EXPECT_EQ(content(), "theirs");
  EXPECT_EQ(objects(), 1U);
}

TEST_F(PutObjectTest, MakesWhatOthersRemovedMeanwhile) {
  make("old");
  objects_->meanwhile = [&] { ASSERT_TRUE(store_->remove(store_->find("object").value())); };
  EXPECT_TRUE(put("ours", {}));
  EXPECT_EQ(content(), "ours");
  EXPECT_EQ(objects(), 1U);
}

TEST_F(PutObjectTest, OfAPartDoesNotUndoWhatOthersChangedMeanwhile) {
  make("old");
  objects_->meanwhile = [&] { ASSERT_TRUE(write(store_->find("object").value(), "theirs")); };
  EXPECT_FALSE(put(" and ours", {.append = true}));
  EXPECT_EQ(content(), "theirs");
  EXPECT_EQ(objects(), 1U);
  EXPECT_TRUE(put(" and ours", {.append = true}));
  EXPECT_EQ(content(), "theirs and ours");
}

// Trying to clean up would only wait for another answer that does not come.
TEST_F(PutObjectTest, LeavesItsDraftIfTheStoreCannotBeReached) {
  objects_->unreachable = true;
  EXPECT_FALSE(put("ours", {}));
  EXPECT_TRUE(report_.store_failed());
  EXPECT_EQ(report_.finish(), kUnreachable);
  EXPECT_EQ(objects_->removes, 0);
  EXPECT_EQ(objects(), 1U);
}

}  // namespace
}  // namespace verbena::store_cli
