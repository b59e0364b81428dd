// SPDX-License-Identifier: Apache-2.0
// Requests to a bucket, signed by libcurl (AWS Signature Version 4), each in bounded time. For any
// number of threads: a request has a handle of its own, with its connection, while it lasts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/s3_format.h"
#include "backend/s3_library.h"
#include "backend/s3_tier.h"
#include "base/mutex.h"

namespace verbena::backend {

struct S3Request {
  const char* method = "GET";  // also HEAD, PUT, POST, DELETE
  std::string path;            // after the prefix
  bool of_bucket = false;      // of the bucket itself: `path` is not used
  std::vector<std::pair<std::string, std::string>> query{};  // sorted by their names
  S3Headers headers{};
  std::string_view body{};
  // Of GET: bytes [first, first + count); 0 for all.
  uint64_t range_first = 0;
  uint64_t range_count = 0;
  size_t max_answer = size_t{8} << 20;  // longer ones fail
};

struct S3Answer {
  int status = 0;
  int tries = 1;  // of more than one, an earlier one may have been done
  S3Headers headers;
  std::string body;
  [[nodiscard]] bool good() const { return status >= 200 && status < 300; }
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

class S3Client {
 public:
  [[nodiscard]] static Result<std::unique_ptr<S3Client>> connect(const S3Options& options);
  // With this library, for tests.
  [[nodiscard]] static Result<std::unique_ptr<S3Client>> connect(const S3Options& options,
                                                                 const CurlLibrary& library);
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;
  ~S3Client();

  [[nodiscard]] const S3Options& options() const { return options_; }
  // With the prefix.
  [[nodiscard]] std::string full_path(std::string_view path) const;
  // For messages: "bucket/prefix at https://host".
  [[nodiscard]] const std::string& name() const { return name_; }

  // Whatever the service answers; one that it is too busy for is sent again a few times. An error
  // if there is no answer.
  [[nodiscard]] Result<S3Answer> send(const S3Request& request);
  // Only a good answer is none.
  [[nodiscard]] Result<S3Answer> ask(const S3Request& request, std::string_view what);
  // An answer that is not good, in words.
  [[nodiscard]] Error failed(std::string_view what, const S3Request& request,
                             const S3Answer& answer) const;
  // What comes from the service, for a message: printable, and not too much of it.
  [[nodiscard]] std::string words_of(std::string text) const;
  // All keys that begin with this, without the tier's prefix; `each` answers false to stop.
  using EachPage = std::function<Result<bool>(std::vector<std::string> paths)>;
  [[nodiscard]] Result<void> each_page(std::string_view begin, const EachPage& each);

 private:
  S3Client(const CurlLibrary& api, S3Options options);
  [[nodiscard]] Result<S3Answer> send_once(const S3Request& request);
  [[nodiscard]] std::string url_of(const S3Request& request) const;
  [[nodiscard]] CURL* take_handle();
  void give_back(CURL* handle);

  const CurlLibrary& api_;
  const S3Options options_;
  const std::string name_;
  const std::string signing_;  // for libcurl
  Mutex mutex_;
  std::vector<CURL*> idle_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::backend
