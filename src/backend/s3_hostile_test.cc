// SPDX-License-Identifier: Apache-2.0
// A client whose service means ill, or is not the one that it should be: answers without an end,
// words for the terminal, redirects, and questions for the password.
#include <cstdlib>

#include "backend/s3_client.h"
#include "backend/s3_service_testing.h"

namespace verbena::backend {
namespace {

using Service = ServiceInMemory;

S3Options options_for(const std::string& endpoint) {
  return {.bucket = "bucket",
          .prefix = "pre",
          .endpoint = endpoint,
          .credentials = {"id", Service::kSecret, "the-token"},
          .timeout_s = 2};
}

class S3HostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto library = CurlLibrary::load(); !library) GTEST_SKIP() << library.error().what;
    auto client = S3Client::connect(options_for(service_.endpoint()));
    ASSERT_TRUE(client.has_value()) << client.error().what;
    client_ = std::move(*client);
  }
  void answer(std::string text) {
    service_.set_hook(
        [text = std::move(text)](const auto& /*request*/, const auto& /*honest*/) { return text; });
  }
  Error error_of(const char* method = "GET") {
    S3Request request;
    request.method = method;
    request.path = "a";
    request.max_answer = 1000;
    const auto got = client_->ask(request, "test");
    EXPECT_FALSE(got);
    return got ? Error{} : got.error();
  }
  Result<size_t> count_keys() {
    size_t count = 0;
    auto listed = client_->each_page("", [&](const std::vector<std::string>& paths) {
      count += paths.size();
      return Result<bool>(true);
    });
    if (!listed) return fail(listed.error());
    return count;
  }

  Service service_;
  std::unique_ptr<S3Client> client_;
};

// The service goes on like this, page after page.
TEST_F(S3HostileTest, ListingsThatGoInCirclesEnd) {
  constexpr int kEnough = 50;
  const auto page_from = [](const std::string& token, const std::string& key) {
    return Service::answer(
        "200 OK", fmt::format("<ListBucketResult><IsTruncated>{}</IsTruncated>"
                              "<NextContinuationToken>{}</NextContinuationToken><Contents><Key>{}"
                              "</Key></Contents></ListBucketResult>",
                              !token.empty(), token, key));
  };
  std::atomic<int> pages = 0;
  service_.set_hook([&](const auto&, const auto&) {
    const int page = ++pages;
    if (page > kEnough) return page_from("", "pre/end");
    return page_from(page % 2 == 0 ? "a" : "b", "pre/" + std::to_string(page));
  });
  EXPECT_EQ(count_keys().error().code, Code::kIo);
  EXPECT_LT(pages, kEnough);
  pages = 0;
  service_.set_hook([&](const auto&, const auto&) {
    const int page = ++pages;
    if (page > kEnough) return page_from("", "pre/end");
    return page_from("token " + std::to_string(page), page % 2 == 0 ? "pre/a" : "pre/b");
  });
  EXPECT_EQ(count_keys().error().code, Code::kIo);
  EXPECT_LT(pages, kEnough);
}

// What is missing in a listing is taken for removed.
TEST_F(S3HostileTest, AListingSaysWhetherItIsComplete) {
  answer(Service::answer("200 OK", "<ListBucketResult></ListBucketResult>"));
  EXPECT_EQ(count_keys().error().code, Code::kIo);
  answer(Service::answer(
      "200 OK", "<ListBucketResult><IsTruncated>perhaps</IsTruncated></ListBucketResult>"));
  EXPECT_EQ(count_keys().error().code, Code::kIo);
}

// A page of a proxy, for people, is longer than what is asked for.
TEST_F(S3HostileTest, FailuresCanBeLong) {
  answer(Service::answer("404 Not Found", std::string(100'000, 'x')));
  EXPECT_EQ(error_of().code, Code::kNotFound);
  answer(Service::answer("501 No", std::string(100'000, 'x')));
  EXPECT_EQ(error_of().code, Code::kUnsupported);
  answer(Service::answer("200 OK", std::string(100'000, 'x')));
  EXPECT_EQ(error_of().code, Code::kIo);
}

TEST_F(S3HostileTest, AnswersWithoutAnEndAreCut) {
  std::string endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  for (int i = 0; i < 1000; ++i) endless += "1000\r\n" + std::string(4096, 'x') + "\r\n";
  answer(endless);
  EXPECT_EQ(error_of().code, Code::kIo);
  std::string headers = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 100'000; ++i) headers += fmt::format("name-{}: value\r\n", i);
  answer(headers + "content-length: 0\r\n\r\n");
  EXPECT_NE(error_of().what.find("too long"), std::string::npos);
  answer("HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nx");
  EXPECT_EQ(error_of().code, Code::kUnreachable);
  std::string interim;
  for (int i = 0; i < 10'000; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  service_.closes = true;
  answer(interim);
  EXPECT_EQ(error_of().code, Code::kUnreachable);
}

TEST_F(S3HostileTest, AnswersThatComeByteByByteEnd) {
  service_.drips = true;
  answer(Service::answer("200 OK", std::string(900, 'x')));
  EXPECT_EQ(error_of().code, Code::kUnreachable);
}

// Messages go to logs and terminals.
TEST_F(S3HostileTest, WordsOfTheServiceAreShownAsText) {
  answer(Service::answer("400 Bad\x1b[2J",
                         "<Error><Code>Bad\nCode</Code><Message>\xc2\x9b"
                         "2J\r\nverbena: all is well, the-token" +
                             std::string(10'000, 'x') + "</Message></Error>"));
  const std::string what = error_of().what;
  EXPECT_NE(what.find("all is well"), std::string::npos) << what;
  EXPECT_EQ(what.find("the-token"), std::string::npos) << "a secret is shown";
  for (const char letter : what) EXPECT_TRUE(letter >= ' ' && letter <= '~') << what;
  EXPECT_LT(what.size(), 1000u);
  answer(Service::answer("301 Moved", "", {{"x-amz-bucket-region", "eu\x1b[2J"}}));
  EXPECT_EQ(error_of().what.find('\x1b'), std::string::npos);
}

TEST_F(S3HostileTest, AWrongClockIsNamed) {
  answer(Service::fault("403 Forbidden", "RequestTimeTooSkewed"));
  EXPECT_NE(error_of().what.find("clock"), std::string::npos) << error_of().what;
  // To HEAD nothing but headers is answered.
  answer(Service::answer("403 Forbidden", "", {{"date", "Sun, 06 Nov 1994 08:49:37 GMT"}}));
  EXPECT_NE(error_of("HEAD").what.find("clock"), std::string::npos) << error_of("HEAD").what;
  answer(Service::answer("403 Forbidden", "", {{"date", "x"}}));
  EXPECT_EQ(error_of("HEAD").what.find("clock"), std::string::npos) << error_of("HEAD").what;
}

TEST_F(S3HostileTest, NothingIsSentToWhereARedirectPoints) {
  Service other;
  for (const char* const status : {"301 x", "302 x", "303 x", "307 x", "308 x"}) {
    for (const char* const method : {"GET", "PUT", "DELETE"}) {
      answer(Service::answer(status, "", {{"location", other.endpoint() + "/bucket/pre/a"}}));
      const Error error = error_of(method);
      EXPECT_EQ(error.code, Code::kIo);
      EXPECT_NE(error.what.find("redirect"), std::string::npos) << error.what;
    }
  }
  EXPECT_EQ(other.requests(), 0u);
}

// ServiceInMemory looks for the secret in all that it gets.
TEST_F(S3HostileTest, NobodyIsToldTheSecret) {
  answer(Service::answer("401 x", "", {{"www-authenticate", "Basic realm=\"x\""}}));
  EXPECT_EQ(error_of().code, Code::kIo);
  answer(Service::answer("407 x", "", {{"proxy-authenticate", "Basic realm=\"x\""}}));
  EXPECT_EQ(error_of().code, Code::kIo);
  EXPECT_EQ(service_.requests(), 2u);
}

// A libcurl that was built without signatures would send name and secret as they are.
CURLcode without_signatures(CURL* /*handle*/, CURLoption option, ...) {
  return option == CURLOPT_AWS_SIGV4 ? CURLE_UNKNOWN_OPTION : CURLE_OK;
}

TEST_F(S3HostileTest, WithoutSignaturesNothingIsSent) {
  CurlLibrary library = **CurlLibrary::load();
  library.easy_setopt = &without_signatures;
  auto client = S3Client::connect(options_for(service_.endpoint()), library);
  ASSERT_TRUE(client);
  const auto got = (*client)->send({.path = "a"});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnsupported) << got.error().what;
  EXPECT_EQ(service_.requests(), 0u);
}

// The service ends a connection that was idle when the next request is under way: libcurl sends it
// again, from its beginning.
TEST_F(S3HostileTest, AWriteOnAConnectionThatEndsIsSentAgain) {
  const std::string body(300'000, 'x');
  S3Request request;
  request.method = "PUT";
  request.path = "a";
  request.body = body;
  ASSERT_TRUE(client_->ask(request, "test"));
  service_.continues = false;  // so that libcurl has sent it without having heard anything
  std::atomic<int> closed = 0;
  service_.set_hook(
      [&](const auto&, const auto& honest) { return closed++ == 0 ? std::string() : honest(); });
  const auto again = client_->ask(request, "test");
  EXPECT_TRUE(again.has_value()) << again.error().what;
  EXPECT_EQ(closed, 2);
  EXPECT_EQ(service_.objects()["pre/a"].bytes, body);
}

// As with other programs that use libcurl.
TEST_F(S3HostileTest, AProxyOfTheEnvironmentIsUsed) {
  ASSERT_EQ(setenv("http_proxy", service_.endpoint().c_str(), 1), 0);
  auto client = S3Client::connect(options_for("http://s3.invalid"));
  ASSERT_TRUE(client);
  std::string target;
  service_.set_hook([&](const auto& request, const auto&) {
    target = request.target;
    return Service::answer("200 OK", "hello", {{"connection", "close"}});
  });
  const auto got = (*client)->send({.path = "a"});
  unsetenv("http_proxy");
  ASSERT_TRUE(got.has_value()) << got.error().what;
  EXPECT_EQ(target, "http://s3.invalid/bucket/pre/a");
}

}  // namespace
}  // namespace verbena::backend
