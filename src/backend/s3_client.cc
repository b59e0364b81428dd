// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_client.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unordered_set>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "backend/s3_credentials.h"
#include "backend/s3_xml.h"
#include "base/blocked_signals.h"
#include "base/check.h"

namespace verbena::backend {
namespace {

constexpr int kTries = 5;
constexpr auto kFirstPause = std::chrono::milliseconds(200);
constexpr uint64_t kSlowestBytesPerSecond = uint64_t{64} << 10;
constexpr size_t kMaxHeaders = 200;
constexpr size_t kMaxHeaderBytes = size_t{16} << 10;
constexpr size_t kMaxErrorBytes = size_t{64} << 10;
constexpr int64_t kMaxSkewSeconds = 300;  // services allow 5 to 15 minutes

[[nodiscard]] std::string sha256_hex(std::string_view bytes) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  VERBENA_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (const uint8_t byte : std::span(digest).first(length)) hex += fmt::format("{:02x}", byte);
  return hex;
}

// What libcurl's callbacks write to and read from, while a request lasts.
struct Transfer {
  S3Answer answer;
  std::string_view body;
  std::string_view unsent;
  size_t max_answer = 0;
  bool too_long = false;
  bool failed = false;  // its body is an error's
};

size_t on_body(char* bytes, size_t one, size_t count, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  const size_t most =
      transfer->failed ? std::max(transfer->max_answer, kMaxErrorBytes) : transfer->max_answer;
  if (transfer->answer.body.size() + one * count > most) {
    transfer->too_long = true;
    return 0;
  }
  transfer->answer.body.append(bytes, one * count);
  return one * count;
}

size_t on_header(char* bytes, size_t one, size_t count, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  std::string_view line(bytes, one * count);
  S3Headers& headers = transfer->answer.headers;
  if (line.starts_with("HTTP/")) {
    headers.clear();  // after "100 Continue"
    const size_t status = line.find(' ');
    transfer->failed = status != std::string_view::npos && line.substr(status + 1) >= "3";
  }
  if (headers.size() >= kMaxHeaders || line.size() > kMaxHeaderBytes) {
    transfer->too_long = true;
    return 0;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return one * count;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  line.remove_prefix(colon + 1);
  const size_t first = line.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return one * count;
  headers[name] = line.substr(first, line.find_last_not_of(" \t\r\n") + 1 - first);
  return one * count;
}

size_t on_read(char* bytes, size_t one, size_t count, void* user) {
  auto* const transfer = static_cast<Transfer*>(user);
  const size_t some = std::min(one * count, transfer->unsent.size());
  std::memcpy(bytes, transfer->unsent.data(), some);
  transfer->unsent.remove_prefix(some);
  return some;
}

// A request on a connection that the service has ended meanwhile is sent again, from its beginning.
int on_seek(void* user, curl_off_t offset, int origin) {
  auto* const transfer = static_cast<Transfer*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<size_t>(offset) > transfer->body.size()) {
    return CURL_SEEKFUNC_FAIL;
  }
  transfer->unsent = transfer->body.substr(static_cast<size_t>(offset));
  return CURL_SEEKFUNC_OK;
}

[[nodiscard]] bool is_busy(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

[[nodiscard]] bool is_skewed(const S3Answer& answer) {
  const auto theirs = parse_http_date(answer.header("date"));
  const auto ours = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return theirs && std::abs(ours.count() - *theirs) > kMaxSkewSeconds;
}

// "https://" and the rest.
[[nodiscard]] std::pair<std::string, std::string> split_endpoint(const std::string& endpoint) {
  const size_t slashes = endpoint.find("://");
  if (slashes == std::string::npos) return {"https://", endpoint};
  return {endpoint.substr(0, slashes + 3), endpoint.substr(slashes + 3)};
}

}  // namespace

S3Client::S3Client(const CurlLibrary& api, S3Options options)
    : api_(api),
      options_(std::move(options)),
      name_(fmt::format("{}{}{} at {}", options_.bucket, options_.prefix.empty() ? "" : "/",
                        options_.prefix, options_.endpoint)),
      signing_(fmt::format("aws:amz:{}:s3", options_.region)) {}

S3Client::~S3Client() {
  const MutexLock lock(mutex_);
  for (CURL* const handle : idle_) api_.easy_cleanup(handle);
}

Result<std::unique_ptr<S3Client>> S3Client::connect(const S3Options& options) {
  auto curl = CurlLibrary::load();
  if (!curl) return fail(curl.error());
  return connect(options, **curl);
}

Result<std::unique_ptr<S3Client>> S3Client::connect(const S3Options& options,
                                                    const CurlLibrary& library) {
  if (auto expat = ExpatLibrary::load(); !expat) return fail(expat.error());
  S3Options complete = options;
  if (complete.credentials.access_key.empty()) {
    auto found = find_s3_credentials();
    if (!found) return fail(found.error());
    complete.credentials = std::move(*found);
  }
  if (complete.ca_file.empty()) complete.ca_file = find_s3_ca_file();
  return std::unique_ptr<S3Client>(new S3Client(library, std::move(complete)));
}

CURL* S3Client::take_handle() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      CURL* const handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  return api_.easy_init();
}

void S3Client::give_back(CURL* handle) {
  api_.easy_reset(handle);  // its connection stays
  const MutexLock lock(mutex_);
  idle_.push_back(handle);
}

std::string S3Client::full_path(std::string_view path) const {
  return options_.prefix.empty() ? std::string(path) : fmt::format("{}/{}", options_.prefix, path);
}

// Query and path are encoded as the signature wants them: libcurl 7.88 signs them as they are.
std::string S3Client::url_of(const S3Request& request) const {
  const auto [scheme, host] = split_endpoint(options_.endpoint);
  std::string url = options_.bucket_in_host ? fmt::format("{}{}.{}/", scheme, options_.bucket, host)
                                            : fmt::format("{}{}/{}", scheme, host, options_.bucket);
  if (!request.of_bucket) {
    if (!options_.bucket_in_host) url += '/';
    url += url_encoded(full_path(request.path), true);
  }
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    url += fmt::format("{}{}={}", separator, url_encoded(name, false), url_encoded(value, false));
    separator = '&';
  }
  return url;
}

Result<S3Answer> S3Client::send_once(const S3Request& request) {
  const std::string_view method = request.method;
  CURL* const curl = take_handle();
  if (curl == nullptr) return fail(Error{Code::kNoMemory, "libcurl gives no handle", {}});
  curl_slist* list = nullptr;
  const auto add = [&](const std::string& name, const std::string& value) {
    list = api_.slist_append(list, fmt::format("{}: {}", name, value).c_str());
  };
  for (const auto& [name, value] : request.headers) add(name, value);
  add("x-amz-content-sha256", sha256_hex(request.body));
  const S3Credentials& keys = options_.credentials;
  if (!keys.session_token.empty()) add("x-amz-security-token", keys.session_token);

  Transfer transfer;
  transfer.max_answer = request.max_answer;
  transfer.body = request.body;
  transfer.unsent = request.body;
  const uint64_t bytes = request.body.size() + request.range_count;
  const std::string url = url_of(request);
  const std::string range =
      fmt::format("{}-{}", request.range_first, request.range_first + request.range_count - 1);
  // Without one of them the request would be another: without signatures, libcurl would send the
  // secret key itself.
  bool complete = true;
  const auto set = [&](CURLoption option, auto value) {
    complete = complete && api_.easy_setopt(curl, option, value) == CURLE_OK;
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(std::min<uint32_t>(options_.timeout_s, 10)));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.timeout_s));
  set(CURLOPT_TIMEOUT, static_cast<long>(options_.timeout_s + bytes / kSlowestBytesPerSecond));
  set(CURLOPT_AWS_SIGV4, signing_.c_str());
  set(CURLOPT_USERNAME, keys.access_key.c_str());
  set(CURLOPT_PASSWORD, keys.secret_key.c_str());
  set(CURLOPT_HTTPHEADER, list);
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  if (method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (method == "PUT" || method == "POST") {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_READFUNCTION, &on_read);
    set(CURLOPT_READDATA, static_cast<void*>(&transfer));
    set(CURLOPT_SEEKFUNCTION, &on_seek);
    set(CURLOPT_SEEKDATA, static_cast<void*>(&transfer));
  }
  if (method == "POST" || method == "DELETE") set(CURLOPT_CUSTOMREQUEST, request.method);
  if (request.range_count > 0) set(CURLOPT_RANGE, range.c_str());
  const BlockedSignals blocked{SIGPIPE};  // OpenSSL writes to connections that are gone
  const CURLcode code = complete ? api_.easy_perform(curl) : CURLE_UNKNOWN_OPTION;
  long status = 0;
  static_cast<void>(api_.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status));
  api_.slist_free_all(list);
  give_back(curl);
  if (!complete) {
    return fail(Error{Code::kUnsupported, "S3: libcurl was built without what S3 needs", {}});
  }
  // What goes with a failure may be a long text for people.
  if (code == CURLE_OK || (transfer.too_long && status >= 300)) {
    transfer.answer.status = static_cast<int>(status);
    return std::move(transfer.answer);
  }
  const Code kind = transfer.too_long ? Code::kIo : Code::kUnreachable;
  return fail(
      Error{kind,
            fmt::format("S3 {}: {} {}: {}", name_, request.method,
                        request.of_bucket ? "bucket" : request.path,
                        transfer.too_long ? "the answer is too long" : api_.easy_strerror(code)),
            {}});
}

Result<S3Answer> S3Client::send(const S3Request& request) {
  if (full_path(request.path).size() > kMaxS3KeyBytes) {
    return fail(Error{Code::kUnsupported,
                      "the object's name is too long for S3 (a key has 1024 bytes, with the prefix "
                      "and what escapes its characters)",
                      {}});
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(options_.timeout_s);
  auto pause = kFirstPause;
  for (int tries = 1;; ++tries, pause *= 2) {
    auto answer = send_once(request);
    if (answer) answer->tries = tries;
    if (!answer || !is_busy(answer->status) || tries == kTries ||
        std::chrono::steady_clock::now() + pause > until) {
      return answer;
    }
    std::this_thread::sleep_for(pause);
  }
}

Result<S3Answer> S3Client::ask(const S3Request& request, std::string_view what) {
  auto answer = send(request);
  if (answer && !answer->good()) return fail(failed(what, request, *answer));
  return answer;
}

// Printable ASCII, and not too much of it. A service could also repeat what it was sent.
std::string S3Client::words_of(std::string text) const {
  constexpr size_t kMost = 200;
  const std::string& token = options_.credentials.session_token;
  for (size_t at = 0; !token.empty() && (at = text.find(token, at)) != std::string::npos;) {
    text.erase(at, token.size());
  }
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  std::ranges::replace_if(text, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

Error S3Client::failed(std::string_view what, const S3Request& request,
                       const S3Answer& answer) const {
  const S3Fault fault = parse_s3_fault(answer.body).value_or(S3Fault{});
  std::string why = fault.code.empty() ? std::string() : " " + words_of(fault.code);
  if (!fault.message.empty()) why += ": " + words_of(fault.message);
  Code code = Code::kIo;
  const int status = answer.status;
  if (fault.code == "NoSuchBucket") {
    why = ": there is no such bucket";
  } else if (fault.code == "QuotaExceeded" || status == 507) {
    code = Code::kFull;
  } else if (fault.code == "RequestTimeTooSkewed" || (status == 403 && is_skewed(answer))) {
    why += fmt::format(" (the clock of this machine is wrong: the service has {})",
                       words_of(answer.header("date")));
  } else if (status == 401 || status == 403) {
    why += " (the service refuses the key, or does not allow it this)";
  } else if (fault.code == "AuthorizationHeaderMalformed" || (status >= 300 && status < 400)) {
    const std::string region = words_of(answer.header("x-amz-bucket-region"));
    why += fmt::format(" (redirects are not followed; is the region wrong?{}{})",
                       region.empty() ? "" : " It should be ", region);
  } else if (status == 404) {
    code = Code::kNotFound;
  } else if (status == 409 || status == 412) {
    code = Code::kConflict;
  } else if (is_busy(status)) {
    code = Code::kUnreachable;
  } else if (fault.code == "EntityTooLarge" || status == 413 || status == 501) {
    code = Code::kUnsupported;
  }
  return {code,
          fmt::format("S3 {}: {}: {} {}: status {}{}", name_, what, request.method,
                      request.of_bucket ? "bucket" : request.path, status, why),
          {}};
}

Result<void> S3Client::each_page(std::string_view begin, const EachPage& each) {
  const std::string prefix = full_path(begin);
  const size_t cut = prefix.size() - begin.size();
  std::string token;
  // A service that goes in circles is not followed: neither a token nor the first key of a page
  // comes twice. (Most list in order, but not all.)
  std::unordered_set<std::string> seen;
  while (true) {
    S3Request request;
    request.of_bucket = true;
    if (!token.empty()) request.query.emplace_back("continuation-token", token);
    request.query.emplace_back("encoding-type", "url");
    request.query.emplace_back("list-type", "2");
    request.query.emplace_back("prefix", prefix);
    auto answer = ask(request, "cannot list it");
    if (!answer) {
      Error error = answer.error();
      if (error.code == Code::kNotFound) error.code = Code::kIo;
      return fail(std::move(error));
    }
    auto page = parse_s3_listing(answer->body);
    if (!page) return fail(Error{Code::kIo, fmt::format("S3 {}: {}", name_, page.error()), {}});
    std::vector<std::string> paths;
    for (const std::string& key : page->keys) {
      if (key.starts_with(prefix)) paths.push_back(key.substr(cut));
    }
    auto more = each(std::move(paths));
    if (!more) return fail(more.error());
    if (!*more || page->next.empty()) return {};
    if (page->keys.empty() || !seen.insert("t" + page->next).second ||
        !seen.insert("k" + page->keys.front()).second) {
      return fail(Error{Code::kIo, fmt::format("S3 {}: a listing does not go on", name_), {}});
    }
    token = std::move(page->next);
  }
}

}  // namespace verbena::backend
