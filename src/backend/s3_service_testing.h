// SPDX-License-Identifier: Apache-2.0
// An S3 service in memory, on a port of 127.0.0.1, for tests that want one that is hostile, broken,
// or has another time. It verifies no signatures. A hook sees each request first, and answers what
// it likes. A thread for each connection.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/loopback_testing.h"
#include "backend/s3_format.h"
#include "base/mutex.h"
#include "base/unique_fd.h"

namespace verbena::backend {

class ServiceInMemory {
 public:
  struct Request {
    std::string method;
    std::string target;  // as it was sent
    std::string key;     // without the bucket; empty: of the bucket itself
    S3Headers query;
    S3Headers headers;
    std::string body;
    [[nodiscard]] bool puts(std::string_view part) const {
      return method == "PUT" && key.find(part) != std::string::npos;
    }
  };
  struct Stored {
    std::string bytes;
    S3Headers headers;  // metadata, etag, last-modified
  };
  using Honest = std::function<std::string()>;
  // Bytes of a whole answer; empty: the connection is closed. `honest` does what was asked for.
  using Hook = std::function<std::string(const Request&, const Honest& honest)>;

  static constexpr const char* kSecret = "the-secret-key";

  ServiceInMemory() {
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~ServiceInMemory() {
    end_ = true;
    shutdown(listening_.fd.get(), SHUT_RDWR);  // ends accept()
    accepting_.join();
    for (std::thread& thread : connections_) thread.join();
  }
  ServiceInMemory(const ServiceInMemory&) = delete;
  ServiceInMemory& operator=(const ServiceInMemory&) = delete;

  [[nodiscard]] std::string endpoint() const {
    return fmt::format("http://127.0.0.1:{}", listening_.port);
  }
  void set_hook(Hook hook) {
    const MutexLock lock(mutex_);
    hook_ = std::move(hook);
  }
  [[nodiscard]] std::map<std::string, Stored> objects() {
    const MutexLock lock(mutex_);
    return objects_;
  }
  void put(const std::string& key, const std::string& bytes) {
    const MutexLock lock(mutex_);
    store(key, bytes, {});
  }
  [[nodiscard]] size_t uploads() {
    const MutexLock lock(mutex_);
    return uploads_.size();
  }
  // By another program.
  void begin_upload(const std::string& key) {
    const MutexLock lock(mutex_);
    uploads_[fmt::format("upload-{}", ++etags_)] = {key, {}, {}};
  }
  [[nodiscard]] size_t requests() const { return requests_; }

  [[nodiscard]] static std::string answer(std::string_view status, const std::string& body = "",
                                          const S3Headers& headers = {}) {
    std::string text = fmt::format("HTTP/1.1 {}\r\n", status);
    for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
    if (!headers.contains("content-length")) {
      text += fmt::format("content-length: {}\r\n", body.size());
    }
    return text + "\r\n" + body;
  }
  [[nodiscard]] static std::string fault(std::string_view status, std::string_view code) {
    return answer(status, fmt::format("<Error><Code>{}</Code></Error>", code));
  }

  // Of the service's clock.
  std::atomic<int64_t> seconds_ahead = 0;
  std::atomic<bool> knows_conditions = true;
  std::atomic<size_t> page_keys = 1000;
  std::atomic<bool> continues = true;  // says so to who asks before it sends a body
  std::atomic<bool> closes = false;    // the connection, after each answer
  std::atomic<bool> drips = false;     // answers come byte by byte, for minutes

 private:
  struct Upload {
    std::string key;
    S3Headers headers;
    std::map<uint64_t, std::string> pieces;
  };

  void accept_all() {
    while (true) {
      UniqueFd connection(accept4(listening_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.get() < 0) return;
      connections_.emplace_back(
          [this, mine = std::move(connection)] { serve_connection(mine.get()); });
    }
  }

  void serve_connection(int connection) {
    std::string bytes;
    Request request;
    while (read_request(connection, bytes, request)) {
      ++requests_;
      Hook hook;
      {
        const MutexLock lock(mutex_);
        hook = hook_;
      }
      const Honest honest = [&] {
        const MutexLock lock(mutex_);
        return serve(request);
      };
      if (!send_all(connection, hook ? hook(request, honest) : honest()) || closes) return;
      request = {};
    }
  }

  bool receive(int connection, std::string& bytes) const {
    pollfd ready{.fd = connection, .events = POLLIN, .revents = 0};
    while (poll(&ready, 1, 50) == 0) {
      if (end_) return false;
    }
    char some[65536];
    const ssize_t got = recv(connection, some, sizeof some, 0);
    if (got <= 0) return false;
    bytes.append(some, static_cast<size_t>(got));
    // The signature shows that we have the key; the key itself never leaves.
    EXPECT_EQ(bytes.find(kSecret), std::string::npos);
    EXPECT_EQ(bytes.find("Authorization: Basic"), std::string::npos);
    return true;
  }

  // Whole requests are taken off `bytes`.
  bool read_request(int connection, std::string& bytes, Request& request) const {
    size_t end = 0;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
      if (!receive(connection, bytes)) return false;
    }
    parse(bytes.substr(0, end + 2), request);
    bytes.erase(0, end + 4);
    if (continues && request.headers.contains("expect"))
      send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    const size_t length = parse_decimal(request.headers["content-length"]).value_or(0);
    while (bytes.size() < length) {
      if (!receive(connection, bytes)) return false;
    }
    request.body = bytes.substr(0, length);
    bytes.erase(0, length);
    return true;
  }

  static void parse(std::string_view head, Request& request) {
    const size_t method = head.find(' ');
    const size_t target = head.find(' ', method + 1);
    request.method = head.substr(0, method);
    request.target = head.substr(method + 1, target - method - 1);
    for (size_t at = head.find('\n') + 1; at < head.size(); at = head.find('\n', at) + 1) {
      const std::string_view line = head.substr(at, head.find('\r', at) - at);
      const size_t colon = std::min(line.find(':'), line.size());
      std::string name(line.substr(0, colon));
      std::ranges::transform(name, name.begin(), [](char letter) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      });
      request.headers[name] = line.substr(std::min(colon + 2, line.size()));
    }
    std::string_view rest = request.target;
    std::string_view path = rest.substr(0, rest.find('?'));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find('&'));
      const size_t equals = std::min(one.find('='), one.size());
      request.query[std::string(one.substr(0, equals))] =
          url_decoded(one.substr(std::min(equals + 1, one.size()))).value_or("");
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
    path.remove_prefix(std::min(path.find('/', 1), path.size()));  // the bucket
    request.key = url_decoded(path.substr(std::min<size_t>(1, path.size()))).value_or("");
  }

  bool send_all(int connection, std::string_view bytes) const {
    const bool whole = !bytes.empty();
    while (!bytes.empty()) {
      const size_t most = drips ? 1 : bytes.size();
      const ssize_t sent = send(connection, bytes.data(), most, MSG_NOSIGNAL);
      if (sent <= 0 || end_) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
      if (drips) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return whole;
  }

  [[nodiscard]] std::string date() const {
    const time_t now = std::time(nullptr) + seconds_ahead;
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[64];
    static_cast<void>(std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts));
    return text;
  }

  std::string store(const std::string& key, std::string bytes, S3Headers headers)
      VERBENA_REQUIRES(mutex_) {
    headers["etag"] = fmt::format("\"{:032x}\"", ++etags_);
    headers["last-modified"] = date();
    Stored& stored = objects_[key];
    stored = {std::move(bytes), std::move(headers)};
    return stored.headers["etag"];
  }

  std::string serve(const Request& request) VERBENA_REQUIRES(mutex_) {
    if (request.query.contains("list-type")) return list(request);
    if (request.method == "POST" && request.query.contains("uploads")) return begin(request);
    if (request.query.contains("uploads")) return list_uploads(request);
    if (request.query.contains("uploadId")) return in_upload(request);
    const auto found = objects_.find(request.key);
    if (request.method == "PUT") {
      if (knows_conditions && !holds(request)) {
        return fault("412 Precondition Failed", "PreconditionFailed");
      }
      return answer("200 OK", "",
                    {{"etag", store(request.key, request.body, metadata_in(request))}});
    }
    if (request.method == "DELETE") {
      objects_.erase(request.key);
      return answer("204 No Content");
    }
    if (found == objects_.end()) return fault("404 Not Found", "NoSuchKey");
    return read(request, found->second);
  }

  [[nodiscard]] bool holds(const Request& request) const VERBENA_REQUIRES(mutex_) {
    const auto found = objects_.find(request.key);
    const auto match = request.headers.find("if-match");
    if (request.headers.contains("if-none-match")) return found == objects_.end();
    if (match == request.headers.end()) return true;
    return found != objects_.end() && found->second.headers.at("etag") == match->second;
  }

  static S3Headers metadata_in(const Request& request) {
    S3Headers kept;
    for (const auto& [name, value] : request.headers) {
      if (name.starts_with("x-amz-meta-")) kept[name] = value;
    }
    return kept;
  }

  [[nodiscard]] std::string read(const Request& request, const Stored& stored) const {
    S3Headers headers = stored.headers;
    headers["date"] = date();
    if (request.method == "HEAD") {
      headers["content-length"] = std::to_string(stored.bytes.size());
      return answer("200 OK", "", headers);
    }
    const auto range = request.headers.find("range");
    if (range == request.headers.end()) return answer("200 OK", stored.bytes, headers);
    const std::string_view text = std::string_view(range->second).substr(std::strlen("bytes="));
    const size_t first = parse_decimal(text.substr(0, text.find('-'))).value_or(0);
    const size_t last = std::min<size_t>(parse_decimal(text.substr(text.find('-') + 1)).value_or(0),
                                         stored.bytes.size() - 1);
    if (first >= stored.bytes.size()) return fault("416 Range Not Satisfiable", "InvalidRange");
    headers["content-range"] = fmt::format("bytes {}-{}/{}", first, last, stored.bytes.size());
    return answer("206 Partial Content", stored.bytes.substr(first, last + 1 - first), headers);
  }

  [[nodiscard]] std::string list(const Request& request) const VERBENA_REQUIRES(mutex_) {
    const auto value = [&](const char* name) {
      const auto found = request.query.find(name);
      return found == request.query.end() ? std::string() : found->second;
    };
    std::string inside;
    std::string last;
    size_t count = 0;
    bool cut = false;
    for (const auto& [key, stored] : objects_) {
      if (!key.starts_with(value("prefix")) || key <= value("continuation-token")) continue;
      cut = count++ == page_keys;
      if (cut) break;
      inside += fmt::format("<Contents><Key>{}</Key></Contents>", url_encoded(key, true));
      last = key;
    }
    return answer("200 OK", fmt::format("<ListBucketResult><EncodingType>url</EncodingType>"
                                        "<IsTruncated>{}</IsTruncated><NextContinuationToken>{}"
                                        "</NextContinuationToken>{}</ListBucketResult>",
                                        cut, cut ? last : "", inside));
  }

  [[nodiscard]] std::string list_uploads(const Request& request) const VERBENA_REQUIRES(mutex_) {
    std::string inside;
    for (const auto& [id, upload] : uploads_) {
      if (!upload.key.starts_with(request.query.at("prefix"))) continue;
      inside += fmt::format("<Upload><Key>{}</Key><UploadId>{}</UploadId></Upload>",
                            url_encoded(upload.key, true), id);
    }
    return answer("200 OK",
                  fmt::format("<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
                              "<IsTruncated>false</IsTruncated>{}</ListMultipartUploadsResult>",
                              inside));
  }

  std::string begin(const Request& request) VERBENA_REQUIRES(mutex_) {
    const std::string id = fmt::format("upload-{}", ++etags_);
    uploads_[id] = {request.key, metadata_in(request), {}};
    return answer("200 OK", fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId>"
                                        "</InitiateMultipartUploadResult>",
                                        id));
  }

  std::string in_upload(const Request& request) VERBENA_REQUIRES(mutex_) {
    const std::string id = request.query.at("uploadId");
    const auto found = uploads_.find(id);
    if (found == uploads_.end()) return fault("404 Not Found", "NoSuchUpload");
    if (request.method == "PUT") {
      const auto number = parse_decimal(request.query.at("partNumber"));
      found->second.pieces[number.value_or(0)] = request.body;
      return answer("200 OK", "", {{"etag", fmt::format("\"piece {}\"", number.value_or(0))}});
    }
    const Upload upload = found->second;
    if (request.method == "DELETE") {
      uploads_.erase(id);
      return answer("204 No Content");
    }
    if (knows_conditions && !holds(request)) {
      return fault("412 Precondition Failed", "PreconditionFailed");
    }
    std::string bytes;
    for (const auto& [number, piece] : upload.pieces) bytes += piece;
    uploads_.erase(id);
    return answer("200 OK", fmt::format("<CompleteMultipartUploadResult><ETag>{}</ETag>"
                                        "</CompleteMultipartUploadResult>",
                                        store(request.key, std::move(bytes), upload.headers)));
  }

  ListeningSocket listening_ = listen_on_loopback();
  std::thread accepting_;
  std::list<std::thread> connections_;  // of the thread that accepts
  std::atomic<bool> end_ = false;
  mutable std::atomic<size_t> requests_ = 0;
  Mutex mutex_;
  Hook hook_ VERBENA_GUARDED_BY(mutex_);
  std::map<std::string, Stored> objects_ VERBENA_GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ VERBENA_GUARDED_BY(mutex_);
  uint64_t etags_ VERBENA_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::backend
