// SPDX-License-Identifier: Apache-2.0
// A client against a service that answers whatever the test wants.
#include "backend/s3_client.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/loopback_testing.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace verbena::backend {
namespace {

// One connection for each request. The last answer is given again and again; an empty one is none.
class ScriptedService {
 public:
  explicit ScriptedService(std::vector<std::string> answers) : answers_(std::move(answers)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedService() {
    shutdown(listening_.fd.get(), SHUT_RDWR);  // ends accept()
    thread_.join();
  }
  ScriptedService(const ScriptedService&) = delete;
  ScriptedService& operator=(const ScriptedService&) = delete;

  [[nodiscard]] std::string endpoint() const {
    return "http://127.0.0.1:" + std::to_string(listening_.port);
  }
  [[nodiscard]] std::vector<std::string> requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    std::vector<UniqueFd> silent;  // those without an answer stay open
    for (size_t number = 0;; ++number) {
      UniqueFd connection(accept4(listening_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.get() < 0) return;
      std::string request;
      char some[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(connection.get(), some, sizeof some, 0);
        if (got <= 0) break;
        request.append(some, static_cast<size_t>(got));
      }
      {
        const MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      const std::string& answer = answers_[std::min(number, answers_.size() - 1)];
      if (answer.empty()) {
        silent.push_back(std::move(connection));
        continue;
      }
      static_cast<void>(!send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
    }
  }

  const std::vector<std::string> answers_;
  ListeningSocket listening_ = listen_on_loopback();
  Mutex mutex_;
  std::vector<std::string> requests_ VERBENA_GUARDED_BY(mutex_);
  std::thread thread_;
};

std::string answer_of(const std::string& status, const std::string& body,
                      const std::string& headers = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "Connection: close\r\n\r\n" + body;
}

class S3ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto library = CurlLibrary::load(); !library) GTEST_SKIP() << library.error().what;
  }
  void answer(std::vector<std::string> answers) {
    client_.reset();
    service_ = std::make_unique<ScriptedService>(std::move(answers));
    auto client = S3Client::connect({.bucket = "bucket",
                                     .prefix = "pre",
                                     .endpoint = service_->endpoint(),
                                     .credentials = {"id", "secret", "token"},
                                     .timeout_s = 2});
    ASSERT_TRUE(client.has_value()) << client.error().what;
    client_ = std::move(*client);
  }
  Result<S3Answer> get() {
    S3Request request;
    request.path = "a b";
    request.query = {{"x", "y/z"}};
    request.max_answer = 1000;
    return client_->ask(request, "test");
  }
  std::unique_ptr<ScriptedService> service_;
  std::unique_ptr<S3Client> client_;
};

TEST_F(S3ClientTest, RequestsAreSigned) {
  answer({answer_of("200 OK", "hello", "ETag:  \"x\" \r\nX-Amz-Meta-A: b\r\n")});
  const auto got = get();
  ASSERT_TRUE(got.has_value()) << got.error().what;
  EXPECT_EQ(got->body, "hello");
  EXPECT_EQ(got->header("etag"), "\"x\"");
  EXPECT_EQ(got->header("x-amz-meta-a"), "b");
  const std::string request = service_->requests().at(0);
  EXPECT_TRUE(request.starts_with("GET /bucket/pre/a%20b?x=y%2Fz HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("AWS4-HMAC-SHA256 Credential=id/"), std::string::npos) << request;
  EXPECT_NE(request.find("x-amz-security-token: token"), std::string::npos) << request;
  EXPECT_EQ(request.find("secret"), std::string::npos);
}

TEST_F(S3ClientTest, ABusyServiceIsAskedAgainAFewTimes) {
  const std::string busy =
      answer_of("503 Slow Down", "<Error><Code>SlowDown</Code><Message>m</Message></Error>");
  answer({busy, busy, answer_of("200 OK", "hello")});
  EXPECT_TRUE(get());
  EXPECT_EQ(service_->requests().size(), 3u);
  answer({busy});
  const auto never = get();
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().code, Code::kUnreachable);
  EXPECT_NE(never.error().what.find("SlowDown: m"), std::string::npos) << never.error().what;
  EXPECT_LE(service_->requests().size(), 5u);
}

TEST_F(S3ClientTest, AnswersThatAreNoneAreErrors) {
  const auto code = [&](const std::string& raw) {
    answer({raw});
    const auto got = get();
    return got ? Code::kExists : got.error().code;  // which is no answer of a client
  };
  EXPECT_EQ(code(""), Code::kUnreachable);  // nothing, in time
  EXPECT_EQ(code("nonsense\r\n\r\n"), Code::kUnreachable);
  EXPECT_EQ(code("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), Code::kUnreachable);
  EXPECT_EQ(code(answer_of("200 OK", std::string(1001, 'x'))), Code::kIo);  // too long
  EXPECT_EQ(code(answer_of("204 No Content", "")), Code::kExists);
  EXPECT_EQ(code(answer_of("403 Forbidden", "<html>")), Code::kIo);
  EXPECT_EQ(code(answer_of("404 Not Found", "")), Code::kNotFound);
  EXPECT_EQ(code(answer_of("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>")),
            Code::kIo);
  EXPECT_EQ(code(answer_of("409 Conflict", "")), Code::kConflict);
  EXPECT_EQ(code(answer_of("412 Precondition Failed", "")), Code::kConflict);
  EXPECT_EQ(code(answer_of("507 Insufficient Storage", "")), Code::kFull);
  EXPECT_EQ(code(answer_of("403 Forbidden", "<Error><Code>QuotaExceeded</Code></Error>")),
            Code::kFull);
  EXPECT_EQ(code(answer_of("501 Not Implemented", "")), Code::kUnsupported);
}

TEST_F(S3ClientTest, RedirectsAreNotFollowed) {
  answer({answer_of("301 Moved Permanently", "",
                    "Location: http://127.0.0.1:1/\r\nx-amz-bucket-region: eu-west-1\r\n")});
  const auto got = get();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kIo);
  EXPECT_NE(got.error().what.find("eu-west-1"), std::string::npos) << got.error().what;
}

TEST_F(S3ClientTest, ListingsGoOnOrEnd) {
  const auto page = [](const std::string& inside) {
    return answer_of("200 OK", "<ListBucketResult>" + inside + "</ListBucketResult>");
  };
  const auto cut = [&](const std::string& key, const std::string& token) {
    return page("<IsTruncated>true</IsTruncated><NextContinuationToken>" + token +
                "</NextContinuationToken><Contents><Key>" + key + "</Key></Contents>");
  };
  std::vector<std::string> all;
  const auto list = [&] {
    all.clear();
    return client_->each_page("", [&](const std::vector<std::string>& paths) {
      all.insert(all.end(), paths.begin(), paths.end());
      return Result<bool>(true);
    });
  };
  // Keys that were not asked for are left out.
  answer({cut("pre/a", "t u"),
          page("<IsTruncated>false</IsTruncated><Contents><Key>pre/b</Key></Contents>"
               "<Contents><Key>other</Key></Contents>")});
  ASSERT_TRUE(list());
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(
      service_->requests().at(1).find("?continuation-token=t%20u&encoding-type=url&list-type=2"
                                      "&prefix=pre%2F"),
      std::string::npos);
  answer({cut("pre/a", "same")});
  EXPECT_EQ(list().error().code, Code::kIo);
  EXPECT_EQ(service_->requests().size(), 2u);
  answer({page("<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>")});
  EXPECT_EQ(list().error().code, Code::kIo);
  answer({answer_of("200 OK", "<html/>")});
  EXPECT_EQ(list().error().code, Code::kIo);
}

}  // namespace
}  // namespace verbena::backend
