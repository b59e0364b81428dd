// SPDX-License-Identifier: Apache-2.0
// The S3 tier on a service that fails in the middle, or answers what is not so. What was written
// stays readable, and nothing is left over.
#include "backend/object_path.h"
#include "backend/s3_service_testing.h"
#include "backend/s3_update.h"
#include "backend/tier_testing.h"

namespace verbena::backend {
namespace {

using Service = ServiceInMemory;

class S3BrokenServiceTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kPieceBytes = kS3PieceParts * kPartBytes;
  static constexpr const char* kObjectPath = "pre/folder/object";
  const Key kObject{"folder/object", {1, 2}};

  void SetUp() override {
    options_ = {.bucket = "bucket",
                .prefix = "pre",
                .endpoint = service_.endpoint(),
                .credentials = {"id", Service::kSecret, ""},
                .timeout_s = 2,
                .lease_s = 60};
    if (auto library = CurlLibrary::load(); !library) GTEST_SKIP() << library.error().what;
  }
  std::unique_ptr<S3Tier> open() {
    auto tier = S3Tier::open(options_);
    EXPECT_TRUE(tier.has_value()) << tier.error().what;
    return tier ? std::move(*tier) : nullptr;
  }
  // As if the last owner had been killed, long ago.
  std::unique_ptr<S3Tier> open_after_crash() {
    service_.put(lease_path(),
                 text_of(S3LeaseText{.owner = "x", .where = "y", .lease_s = 1, .renewed = 1}));
    service_.seconds_ahead += 10;
    return open();
  }
  static std::string lease_path() { return "pre/" + std::string(kS3Lease); }
  Result<void> write(Tier& tier, const Key& key, const Bytes& bytes) {
    const auto before = tier.state(key);
    NewState wanted{std::nullopt, {++version_, bytes.size(), version_}};
    if (before) wanted.base = before->version;
    return write_object(tier, key, wanted, bytes);
  }
  size_t count(std::string_view part) {
    size_t found = 0;
    for (const auto& [key, stored] : service_.objects()) {
      found += key.find(part) != std::string::npos ? 1 : 0;
    }
    return found;
  }

  Service service_;
  S3Options options_;
  SeededRandom random_{5};
  uint64_t version_ = 100;
};

TEST_F(S3BrokenServiceTest, SizesAtTheEdgesOfPieces) {
  service_.page_keys = 3;
  auto tier = open();
  ASSERT_TRUE(tier);
  EXPECT_TRUE(tier->is_guarded());
  size_t objects = 0;
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kPieceBytes, kPieceBytes + 1}) {
    const Bytes bytes = random_bytes(random_, size);
    const Key key{std::to_string(size), {}};
    ASSERT_TRUE(write(*tier, key, bytes));
    EXPECT_TRUE(read_object(*tier, key) == bytes) << size;
    ++objects;
  }
  size_t listed = 0;
  ASSERT_TRUE(tier->list([&](const Entry&) { return ++listed > 0; }));
  EXPECT_EQ(listed, objects);
  EXPECT_EQ(service_.uploads(), 0u);
}

// An answer that is none of the operation's: of a proxy, or of a service that has not done it.
TEST_F(S3BrokenServiceTest, SuccessIsNotBelievedWithoutASign) {
  auto tier = open();
  ASSERT_TRUE(tier);
  for (const uint64_t size : {uint64_t{500}, kPieceBytes + 500}) {
    const Key key{"size " + std::to_string(size), {}};
    const Bytes bytes = random_bytes(random_, size);
    for (const char* const body :
         {"", "<html>welcome</html>", "<Error><Code>InternalError</Code></Error>"}) {
      service_.set_hook([&](const auto& request, const auto& honest) {
        const bool last = request.key == "pre/" + key.name &&
                          ((request.method == "PUT" && !request.query.contains("partNumber")) ||
                           (request.method == "POST" && request.query.contains("uploadId")));
        return last ? Service::answer("200 OK", body) : honest();
      });
      EXPECT_FALSE(write(*tier, key, bytes)) << size << body;
      EXPECT_EQ(tier->state(key).error().code, Code::kNotFound);
    }
    // It was done, and the answer is lost on the way.
    service_.set_hook([&](const auto& request, const auto& honest) {
      const std::string answer = honest();
      const bool written = request.method == "PUT" || request.method == "POST";
      return written && service_.objects().contains("pre/" + key.name) ? "" : answer;
    });
    const auto lost = write(*tier, key, bytes);
    EXPECT_TRUE(lost.has_value()) << lost.error().what;
    service_.set_hook({});
    EXPECT_TRUE(read_object(*tier, key) == bytes);
  }
  tier.reset();
  tier = open();
  ASSERT_TRUE(tier);
  EXPECT_EQ(service_.uploads(), 0u);
  EXPECT_EQ(count(kS3Sums), 2u);
}

// The first try is done and answered with 500, the second refused since the first was done, and
// then the service is gone: nobody knows what is there.
TEST_F(S3BrokenServiceTest, TheSumsOfAVersionThatMayBeThereAreKept) {
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 500);
  std::atomic<int> tries = 0;
  service_.set_hook([&](const auto& request, const auto& honest) {
    if (request.key == kObjectPath && request.method == "PUT") {
      const std::string answer = honest();
      return tries++ == 0 ? Service::fault("500 x", "InternalError") : answer;
    }
    return tries > 0 && request.method == "HEAD" ? std::string() : honest();
  });
  EXPECT_FALSE(write(*tier, kObject, bytes));
  EXPECT_EQ(tries, 2);
  service_.set_hook({});
  const auto read = read_object(*tier, kObject);
  ASSERT_TRUE(read.has_value()) << read.error().what;
  EXPECT_TRUE(*read == bytes);
}

TEST_F(S3BrokenServiceTest, AServiceThatGoesAwayDuringAnUpload) {
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes before = random_bytes(random_, kPieceBytes + 500);
  const Bytes after = random_bytes(random_, kPieceBytes + 500);
  ASSERT_TRUE(write(*tier, kObject, before));
  for (const int pieces : {0, 1}) {
    std::atomic<int> sent = 0;
    service_.set_hook([&](const auto& request, const auto& honest) {
      if (request.query.contains("partNumber")) ++sent;
      return sent > pieces ? std::string() : honest();
    });
    EXPECT_EQ(write(*tier, kObject, after).error().code, Code::kUnreachable);
    EXPECT_EQ(service_.uploads(), 1u);
    service_.set_hook({});
    EXPECT_TRUE(read_object(*tier, kObject) == before);
    tier.reset();
    tier = open();
    ASSERT_TRUE(tier);
    EXPECT_GT(tier->removed_leftovers(), 0u);
    EXPECT_EQ(service_.uploads(), 0u);
    EXPECT_EQ(count(kS3Uploads), 0u);
    EXPECT_EQ(count(kS3Sums), 1u);
  }
  ASSERT_TRUE(write(*tier, kObject, after));
  EXPECT_TRUE(read_object(*tier, kObject) == after);
}

// An upload is begun, and its id is not known: the answer was lost, or the process was killed
// before it could write it down.
TEST_F(S3BrokenServiceTest, UploadsWhoseIdIsNotKnownAreFound) {
  auto tier = open();
  ASSERT_TRUE(tier);
  service_.set_hook([&](const auto& request, const auto& honest) {
    const std::string answer = honest();
    return request.method == "POST" ? std::string() : answer;
  });
  EXPECT_FALSE(write(*tier, kObject, random_bytes(random_, kPieceBytes + 500)));
  service_.set_hook({});
  EXPECT_GT(service_.uploads(), 0u);
  tier.reset();
  // That of another program, of another object.
  service_.begin_upload(std::string(kObjectPath) + "2");
  tier = open();
  ASSERT_TRUE(tier);
  EXPECT_EQ(service_.uploads(), 1u);
  EXPECT_EQ(count(kS3Uploads), 0u);
}

TEST_F(S3BrokenServiceTest, PiecesNeedAnETag) {
  auto tier = open();
  ASSERT_TRUE(tier);
  service_.set_hook([&](const auto& request, const auto& honest) {
    const std::string answer = honest();
    return request.query.contains("partNumber") ? Service::answer("200 OK") : answer;
  });
  const auto done = write(*tier, kObject, random_bytes(random_, kPieceBytes + 500));
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().what.find("ETag"), std::string::npos) << done.error().what;
  EXPECT_EQ(service_.uploads(), 0u);
}

// Sums that belong to no object are removed after a crash, but not because a listing is short.
TEST_F(S3BrokenServiceTest, AListingThatIsShortRemovesNoSums) {
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 500);
  ASSERT_TRUE(write(*tier, kObject, bytes));
  tier.reset();
  const std::string sums = "pre/" + std::string(kS3Sums);
  service_.put(sums + text_of(S3Version{std::string(32, 'a'), 9}), "x");
  service_.put(sums + text_of(S3Version{digest_of(kObject), 9}),
               service_.objects()[sums + text_of(S3Version{digest_of(kObject), version_})].bytes);
  service_.set_hook([&](const auto& request, const auto& honest) {
    const auto prefix = request.query.find("prefix");
    if (prefix == request.query.end() || prefix->second != "pre/") return honest();
    return Service::answer("200 OK",
                           "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
  });
  tier = open_after_crash();
  service_.set_hook({});
  ASSERT_TRUE(tier);
  EXPECT_EQ(count(kS3Sums), 2u);  // those of the object, and those that cannot be read
  EXPECT_EQ(tier->removed_leftovers(), 1u);
  EXPECT_TRUE(read_object(*tier, kObject) == bytes);
}

TEST_F(S3BrokenServiceTest, AnOwnerDoesNotGiveBackTheLeaseOfAnother) {
  for (const bool conditions : {true, false}) {
    service_.knows_conditions = conditions;
    auto tier = open();
    ASSERT_TRUE(tier);
    EXPECT_EQ(tier->is_guarded(), conditions);
    const std::string other =
        text_of(S3LeaseText{.owner = "x", .where = "y", .lease_s = 1, .renewed = 1});
    service_.put(lease_path(), other);
    tier.reset();
    EXPECT_EQ(service_.objects()[lease_path()].bytes, other);
    service_.seconds_ahead += 10;
  }
}

// Where conditions are ignored, it is seen when the lease is to be renewed.
TEST_F(S3BrokenServiceTest, ALeaseThatWasTakenIsNoticed) {
  options_.lease_s = 3;
  for (const bool conditions : {true, false}) {
    service_.knows_conditions = conditions;
    auto tier = open();
    ASSERT_TRUE(tier);
    service_.put(lease_path(), text_of(S3LeaseText{.owner = "x", .where = "y", .lease_s = 1}));
    Code code = Code::kNotFound;
    for (int tries = 0; tries < 200 && code != Code::kInUse; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto update = tier->update(kObject, {std::nullopt, {7, 0, 0}});
      code = update ? Code::kNotFound : update.error().code;
    }
    EXPECT_EQ(code, Code::kInUse);
    EXPECT_EQ(tier->remove(kObject, 1).error().code, Code::kInUse);
    tier.reset();
    service_.seconds_ahead += 10;
  }
}

TEST_F(S3BrokenServiceTest, AServiceThatIsTooSlowIsAnErrorInTime) {
  options_.timeout_s = 1;
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 500);
  ASSERT_TRUE(write(*tier, kObject, bytes));
  service_.drips = true;
  Bytes part(kPartBytes);
  std::vector<PartToLoad> parts{{part.data(), 0}};
  EXPECT_EQ(tier->load(kObject, version_, 0, parts).error().code, Code::kUnreachable);
  EXPECT_EQ(tier->remove(kObject, version_).error().code, Code::kUnreachable);
  EXPECT_EQ(tier->list([](const Entry&) { return true; }).error().code, Code::kUnreachable);
  EXPECT_EQ(tier->update(kObject, {version_, {7, 0, 0}}).error().code, Code::kUnreachable);
  service_.drips = false;
  EXPECT_TRUE(read_object(*tier, kObject) == bytes);
}

TEST_F(S3BrokenServiceTest, WhoTakesTheLeaseAtTheSameTimeIsRefused) {
  service_.set_hook([&](const auto& request, const auto& honest) {
    if (!request.puts(kS3Lease)) return honest();
    return Service::fault("409 Conflict", "ConditionalRequestConflict");
  });
  auto tier = S3Tier::open(options_);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code, Code::kInUse) << tier.error().what;
  service_.put(lease_path(), text_of(S3LeaseText{.owner = "x",
                                                 .where = "\x1b[2J" + std::string(3000, 'x'),
                                                 .lease_s = 100,
                                                 .renewed = 1}));
  tier = S3Tier::open(options_);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code, Code::kInUse);
  EXPECT_EQ(tier.error().what.find('\x1b'), std::string::npos);
  EXPECT_LT(tier.error().what.size(), 1000u);
}

// The first owner believes that it has the lease: its clock was stopped.
TEST_F(S3BrokenServiceTest, AfterATakeoverConditionsRefuseTheFirstOwner) {
  for (const uint64_t size : {uint64_t{500}, kPieceBytes + 500}) {
    const Bytes bytes = random_bytes(random_, size);
    auto first = open();
    ASSERT_TRUE(first && write(*first, kObject, bytes));
    const uint64_t base = version_;
    auto update = first->update(kObject, {base, {++version_, size, 7}});
    ASSERT_TRUE(update && put_parts(**update, random_bytes(random_, size), 0, part_count(size)));
    service_.seconds_ahead += 100;
    auto second = open();
    ASSERT_TRUE(second && write(*second, kObject, bytes));
    EXPECT_FALSE((*update)->commit());
    update->reset();
    first.reset();
    EXPECT_TRUE(read_object(*second, kObject) == bytes);
    EXPECT_EQ(S3Tier::open(options_).error().code, Code::kInUse);
  }
  EXPECT_EQ(service_.uploads(), 0u);
}

// Whatever happens to its answers: what is loaded is what was written, or nothing is.
TEST_F(S3BrokenServiceTest, DamagedAnswersAreNotServed) {
  service_.closes = true;  // what is missing is not waited for
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, 20 * kPartBytes + 7);
  ASSERT_TRUE(write(*tier, kObject, bytes));
  const uint64_t version = version_;
  Mutex mutex;
  SeededRandom random(7);
  service_.set_hook([&](const auto& request, const auto& honest) {
    std::string answer = honest();
    if (request.key != kObjectPath && request.key.find(kS3Sums) == std::string::npos) return answer;
    const MutexLock lock(mutex);
    const uint64_t what = random.below(6);
    const size_t head = answer.find("\r\n\r\n") + 4;
    if (what == 0) return std::string();
    if (what == 1) answer.resize(random.below(answer.size()));
    if (what == 2) answer[random.below(answer.size())] ^= static_cast<char>(1 + random.below(255));
    if (what == 3) answer[random.below(head)] ^= static_cast<char>(1 + random.below(255));
    if (what == 4) answer.insert(random.below(head), std::string(random.below(100), 'x'));
    return answer;
  });
  size_t loaded = 0;
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    Bytes into(21 * kPartBytes);
    std::vector<PartToLoad> parts;
    for (size_t at = 0; at < into.size(); at += kPartBytes) parts.push_back({into.data() + at, 0});
    if (!tier->load(kObject, version, 0, parts)) continue;
    ++loaded;
    into.resize(bytes.size());
    EXPECT_TRUE(into == bytes) << "round " << round;
  }
  service_.set_hook({});
  EXPECT_GT(loaded, 0u);
  EXPECT_TRUE(read_object(*tier, kObject) == bytes);
}

}  // namespace
}  // namespace verbena::backend
