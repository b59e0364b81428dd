// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_lease.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/check.h"
#include "base/kernel_random.h"

namespace verbena::backend {
namespace {

// Longer than a request of another process that began before ours was seen, usually.
constexpr auto kSettle = std::chrono::milliseconds(1000);
constexpr size_t kMaxLeaseBytes = 4096;
constexpr const char* kNoEtag = "\"00000000000000000000000000000000\"";

}  // namespace

S3Lease::S3Lease(S3Client& client)
    : client_(client), conditional_(client.options().use_conditions) {
  KernelRandom random;
  VERBENA_CHECK(random.seed() == 0);
  std::array<char, 256> host{};
  static_cast<void>(!gethostname(host.data(), host.size() - 1));
  text_.owner = fmt::format("{:016x}{:016x}", random.next(), random.next());
  text_.where = fmt::format("process {} on {}", getpid(), host.data());
  text_.lease_s = client.options().lease_s;
}

Result<std::unique_ptr<S3Lease>> S3Lease::take(S3Client& client) {
  std::unique_ptr<S3Lease> lease(new S3Lease(client));
  if (auto taken = lease->take_it(); !taken) return fail(taken.error());
  lease->held_ = true;
  if (auto found = lease->find_conditional(); !found) return fail(found.error());
  lease->renewing_ = std::thread([raw = lease.get()] { raw->renew(); });
  return lease;
}

Error S3Lease::in_use(const std::string& whose) const {
  return {Code::kInUse,
          fmt::format("S3 {} is in use by another process ({}); its lease ends some seconds after "
                      "that process does",
                      client_.name(), client_.words_of(whose)),
          {}};
}

Result<S3Lease::Found> S3Lease::look() {
  S3Request request;
  request.path = kS3Lease;
  request.max_answer = kMaxLeaseBytes;
  auto answer = client_.send(request);
  if (!answer) return fail(answer.error());
  if (!answer->good()) return fail(client_.failed("cannot read the lease", request, *answer));
  Found found;
  found.etag = answer->header("etag");
  const auto text = parse_s3_lease(answer->body);
  const auto now = parse_http_date(answer->header("date"));
  const auto then = parse_http_date(answer->header("last-modified"));
  found.readable = text && now && then;
  if (!found.readable) return found;
  found.text = *text;
  found.age_s = *now - *then;
  return found;
}

Result<S3Answer> S3Lease::write(const std::string& header, const std::string& value) {
  ++text_.renewed;
  const std::string body = text_of(text_);
  S3Request request;
  request.method = "PUT";
  request.path = kS3Lease;
  request.body = body;
  if (!header.empty()) request.headers[header] = value;
  auto answer = client_.send(request);
  if (!answer) return fail(answer.error());
  if (!header.empty() && answer->status == 409) answer->status = 412;  // at the same time
  if (answer->good() || (!header.empty() && (answer->status == 412 || answer->status == 501))) {
    return answer;
  }
  return fail(client_.failed("cannot write the lease", request, *answer));
}

std::string S3Lease::condition(const std::string& etag) const {
  const bool in_quotes = etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
  return quoted_ || !in_quotes ? etag : etag.substr(1, etag.size() - 2);
}

Result<S3Answer> S3Lease::write_if_match(const std::string& etag) {
  auto written = write("if-match", condition(etag));
  if (!written || written->status != 412) return written;
  quoted_ = !quoted_;
  return write("if-match", condition(etag));
}

void S3Lease::note_written(const S3Answer& answer, Clock::time_point since) {
  etag_ = answer.header("etag");
  const MutexLock lock(mutex_);
  renewed_ = since;
}

Result<void> S3Lease::take_it() {
  auto found = look();
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (found) {
    if (!found->readable) {
      return fail(Error{Code::kDamaged,
                        fmt::format("S3 {}: the object {} is not a lease; remove it if no process "
                                    "uses what is here",
                                    client_.name(), kS3Lease),
                        {}});
    }
    // Times are in seconds: one more.
    if (found->text.state == S3LeaseText::State::kHeld &&
        found->age_s <= int64_t{found->text.lease_s} + 1) {
      return fail(in_use(found->text.where));
    }
    was_closed_ = found->text.state == S3LeaseText::State::kClosed;
  }
  const auto since = Clock::now();
  Result<S3Answer> written = !conditional_ ? write("", "")
                             : found       ? write_if_match(found->etag)
                                           : write("if-none-match", "*");
  if (written && written->status == 412) return fail(in_use("it took the lease first"));
  if (written && written->status == 501) {
    conditional_ = false;
    written = write("", "");
  }
  if (!written) return fail(written.error());
  note_written(*written, since);
  return {};
}

// Services that do not know conditions ignore them: what must be refused is tried, and what must
// not.
Result<void> S3Lease::find_conditional() {
  const auto since = Clock::now();
  const auto refuses = [&](const char* header, const char* value) -> Result<bool> {
    auto written = write(header, value);
    if (!written) return fail(written.error());
    if (written->good()) note_written(*written, since);
    return written->status == 412;
  };
  for (const auto& [header, value] :
       {std::pair("if-none-match", "*"), std::pair("if-match", kNoEtag)}) {
    if (!conditional_) break;
    auto refused = refuses(header, value);
    if (!refused) return fail(refused.error());
    conditional_ = *refused;
  }
  if (conditional_) {
    auto written = write_if_match(etag_);
    if (!written) return fail(written.error());
    conditional_ = written->good();
    if (conditional_) {
      note_written(*written, since);
      return {};
    }
  }
  std::this_thread::sleep_for(kSettle);
  auto found = look();
  if (!found) return fail(found.error());
  if (!found->readable || found->text.owner != text_.owner) {
    held_ = false;
    return fail(in_use(found->text.where));
  }
  etag_ = found->etag;
  return {};
}

Result<void> S3Lease::check() {
  const MutexLock lock(mutex_);
  if (lost_) {
    return fail(Error{
        Code::kInUse, fmt::format("S3 {}: another process has taken it over", client_.name()), {}});
  }
  if (Clock::now() < renewed_ + std::chrono::seconds(text_.lease_s)) return {};
  return fail(
      Error{Code::kUnreachable,
            fmt::format("S3 {}: the lease is over, and could not be renewed", client_.name()),
            {}});
}

void S3Lease::renew_once() {
  const auto since = Clock::now();
  const auto is_ours = [&] {
    auto found = look();
    if (!found && found.error().code != Code::kNotFound) return false;  // not known
    if (found && found->readable && found->text.owner == text_.owner) {
      etag_ = found->etag;
      return true;
    }
    const MutexLock lock(mutex_);
    lost_ = true;
    return false;
  };
  if (!conditional_ && !is_ours()) return;
  auto written = conditional_ ? write("if-match", condition(etag_)) : write("", "");
  if (!written) return;
  if (written->good()) return note_written(*written, since);
  // Of an earlier write the answer may have been lost.
  if (!is_ours()) return;
  written = write("if-match", condition(etag_));
  if (written && written->good()) note_written(*written, since);
}

void S3Lease::renew() {
  const auto pause = std::chrono::milliseconds(text_.lease_s * 1000 / 3);
  const MutexLock lock(mutex_);
  while (!end_ && !lost_) {
    ending_.wait_until(mutex_, Clock::now() + pause);
    if (end_) return;
    const MutexUnlock unlock(mutex_);
    renew_once();
  }
}

void S3Lease::close(bool clean) {
  bool lost = false;
  {
    const MutexLock lock(mutex_);
    end_ = true;
    lost = lost_;
  }
  ending_.notify_all();
  if (renewing_.joinable()) renewing_.join();
  if (!std::exchange(held_, false) || lost) return;
  if (!conditional_) {
    const auto found =
        look();  // perhaps another process has taken it, and no renewal has seen that
    if (!found || !found->readable || found->text.owner != text_.owner) return;
  }
  text_.state = clean ? S3LeaseText::State::kClosed : S3LeaseText::State::kReleased;
  // If it fails the next owner waits, and looks for what is left over.
  static_cast<void>(conditional_ ? write("if-match", condition(etag_)) : write("", ""));
}

S3Lease::~S3Lease() { close(false); }

}  // namespace verbena::backend
