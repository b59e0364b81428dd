// SPDX-License-Identifier: Apache-2.0
// The S3 tier on a real service: who may use it, and what an owner that is gone has left.
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

#include "backend/object_path.h"
#include "s3_testing.h"

namespace verbena::backend {
namespace {

// A process that does this, and says when it has; it is killed by the test.
struct Child {
  explicit Child(const std::function<void(const std::function<void()>& say)>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
      work([&] { static_cast<void>(!::write(ends[1], "x", 1)); });
      _exit(0);
    }
    close(ends[1]);
    said = ends[0];
  }
  bool wait() const {
    char what = 0;
    return ::read(said, &what, 1) == 1;
  }
  void end() const {
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    close(said);
  }
  pid_t pid = -1;
  int said = -1;
};

// For tests that wait until a lease ends, or for longer.
class S3OwnerTest : public S3Test {
 protected:
  void SetUp() override {
    S3Test::SetUp();
    options_.lease_s = 3;
  }
};

TEST_F(S3OwnerTest, OneOwnerAtATime) {
  auto tier = open();
  ASSERT_TRUE(tier);
  // Longer than the lease: it is renewed.
  std::this_thread::sleep_for(std::chrono::seconds(options_.lease_s + 3));
  auto second = S3Tier::open(options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_NE(second.error().what.find("process " + std::to_string(getpid())), std::string::npos)
      << second.error().what;
  write(*tier, kObject, {1, 2, 3});
  tier.reset();
  tier = open();
  ASSERT_TRUE(tier);
  EXPECT_TRUE(tier->is_guarded());  // Ceph's service knows conditions
  expect(*tier, kObject, {1, 2, 3});
}

TEST_F(S3OwnerTest, AnOwnerThatIsKilledLeavesNothing) {
  const Bytes bytes = random_bytes(random_, 2 * kPieceBytes);
  {
    auto tier = open();
    ASSERT_TRUE(tier);
    write(*tier, kObject, {1, 2, 3});
  }
  client_.reset();  // libcurl's handles are not for a forked process
  const Child child([&](const auto& say) {
    auto tier = S3Tier::open(options_);
    if (!tier) _exit(1);
    auto update = (*tier)->update({"big", {}}, {std::nullopt, {7, bytes.size(), 7}});
    if (!update || !put_parts(**update, bytes, 0, kS3PieceParts)) _exit(1);
    say();
    pause();
  });
  ASSERT_TRUE(child.wait());
  auto client = S3Client::connect(options_);
  ASSERT_TRUE(client);
  client_ = std::move(*client);
  EXPECT_EQ(count_uploads(), 1u);
  EXPECT_EQ(S3Tier::open(options_).error().code, Code::kInUse);
  child.end();
  // As if it had been killed after it wrote the sums.
  const std::string sums = get_plain(keys(kS3Sums).at(0)).body;
  put_plain(std::string(kS3Sums) + text_of(S3Version{digest_of(kObject), 9}), sums);
  auto tier = take_over();
  ASSERT_TRUE(tier);
  EXPECT_EQ(tier->removed_leftovers(), 2u);
  EXPECT_EQ(count_uploads(), 0u);
  EXPECT_EQ(keys(kS3Sums).size(), 1u);
  EXPECT_TRUE(keys(kS3Uploads).empty());
  expect(*tier, kObject, {1, 2, 3});
}

TEST_F(S3OwnerTest, AnOwnerThatWasStoppedIsRefused) {
  client_.reset();
  int results[2];
  ASSERT_EQ(pipe(results), 0);
  const Child child([&](const auto& say) {
    auto tier = S3Tier::open(options_);
    auto update = (*tier)->update(kObject, {std::nullopt, {7, 3, 7}});
    if (!update || !put_parts(**update, {9, 9, 9}, 0, 1)) _exit(1);
    say();
    raise(SIGSTOP);
    const auto done = (*update)->commit();
    const char code = done ? 'y' : done.error().code == Code::kUnreachable ? 'u' : 'n';
    static_cast<void>(!::write(results[1], &code, 1));
    pause();
  });
  ASSERT_TRUE(child.wait());
  auto tier = take_over();
  ASSERT_TRUE(tier);
  write(*tier, kObject, {1, 2, 3});
  ASSERT_EQ(kill(child.pid, SIGCONT), 0);
  char code = 0;
  ASSERT_EQ(::read(results[0], &code, 1), 1);
  EXPECT_NE(code, 'y');
  expect(*tier, kObject, {1, 2, 3});
  child.end();
}

// Of services that know no conditions: time alone keeps owners apart.
TEST_F(S3Test, WithoutConditionsTheLeaseIsKeptByTime) {
  options_.use_conditions = false;
  auto tier = open();
  ASSERT_TRUE(tier);
  EXPECT_FALSE(tier->is_guarded());
  const Bytes bytes = random_bytes(random_, kPieceBytes + 1);
  write(*tier, kObject, bytes);
  EXPECT_EQ(S3Tier::open(options_).error().code, Code::kInUse);
  write(*tier, kObject, {1, 2, 3});
  tier.reset();
  tier = open();
  ASSERT_TRUE(tier);
  expect(*tier, kObject, {1, 2, 3});
}

TEST_F(S3Test, TheBucketInTheNameOfTheHost) {
  options_.endpoint.replace(options_.endpoint.find("127.0.0.1"), 9, "localhost");
  options_.bucket_in_host = true;
  auto tier = open();
  ASSERT_TRUE(tier);
  write(*tier, kObject, {1, 2, 3});
  EXPECT_EQ(get_plain(kObject.name).body.size(), 3u);  // the other way
  size_t listed = 0;
  ASSERT_TRUE(tier->list([&](const Entry&) { return ++listed > 0; }));
  EXPECT_EQ(listed, 1u);
}

TEST_F(S3Test, CertificatesAreVerified) {
  options_.endpoint = std::getenv("VERBENA_TEST_S3_TLS");
  auto unknown = S3Tier::open(options_);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().what.find("certificate"), std::string::npos) << unknown.error().what;
  options_.ca_file = std::string(std::getenv("VERBENA_TEST_CEPH")) + "/s3.crt";
  auto tier = open();
  ASSERT_TRUE(tier);
  const Bytes bytes = random_bytes(random_, kPieceBytes + 1);
  write(*tier, kObject, bytes);
  expect(*tier, kObject, bytes);
}

TEST_F(S3Test, WrongKeysAndBucketsAreNamed) {
  const auto error_of = [](const S3Options& options) {
    auto tier = S3Tier::open(options);
    EXPECT_FALSE(tier);
    return tier ? Error{} : tier.error();
  };
  S3Options wrong = options_;
  wrong.credentials = {"test", "wrong", ""};
  EXPECT_EQ(error_of(wrong).code, Code::kIo);
  EXPECT_NE(error_of(wrong).what.find("refuses the key"), std::string::npos)
      << error_of(wrong).what;
  EXPECT_EQ(error_of(wrong).what.find("wrong"), std::string::npos) << "the secret is shown";
  wrong.credentials = {"nobody", "wrong", ""};
  EXPECT_NE(error_of(wrong).what.find("refuses the key"), std::string::npos);
  wrong.credentials = {"other", "other-secret", ""};  // of another user
  EXPECT_NE(error_of(wrong).what.find("refuses the key"), std::string::npos);
  wrong = options_;
  wrong.bucket = "missing";
  EXPECT_EQ(error_of(wrong).code, Code::kIo);
  EXPECT_NE(error_of(wrong).what.find("no such bucket"), std::string::npos) << error_of(wrong).what;
  wrong = options_;
  wrong.endpoint = "http://127.0.0.1:1";
  EXPECT_EQ(error_of(wrong).code, Code::kUnreachable);
}

}  // namespace
}  // namespace verbena::backend
