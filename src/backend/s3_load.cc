// SPDX-License-Identifier: Apache-2.0
// Reading of one version: ranges of the object, and of its sums.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backend/object_path.h"
#include "backend/s3_impl.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

constexpr uint64_t kRequestParts = 1024;  // of one request: 4 MiB

}  // namespace

Result<std::string> S3Impl::read_bytes(const Key& key, const S3Head& head, S3Range range) {
  const uint64_t first = range.first * kPartBytes;
  const uint64_t end = std::min((range.first + range.count) * kPartBytes, head.state.size);
  if (first >= end) return std::string();
  S3Request request;
  request.path = s3_path_of(key);
  request.range_first = first;
  request.range_count = end - first;
  request.max_answer = std::max<size_t>(end - first, 64 << 10);
  auto answer = client_->send(request);
  if (!answer) return fail(answer.error());
  if (answer->status == 404 || answer->status == 416) return fail(conflict());
  if (!answer->good()) return fail(client_->failed("cannot read it", request, *answer));
  const auto wrong = [&](const char* what) {
    return fail(
        Error{Code::kIo, fmt::format("S3 {}: {}: {}", client_->name(), request.path, what), {}});
  };
  uint64_t size = answer->body.size();
  if (answer->status == 206) {
    const auto content = parse_content_range(answer->header("content-range"));
    if (!content || content->first != first) return wrong("the answer is another range");
    size = content->size;
  } else if (first != 0) {
    return wrong("the service does not know ranges");
  }
  auto now = head_in(key, *answer, size);
  if (!now) return fail(now.error());
  if (now->state.version != head.state.version) return fail(conflict());
  if (answer->body.size() != end - first) return wrong("the answer has another length");
  return std::move(answer->body);
}

Result<S3Sums> S3Impl::read_sums(const Key& key, const S3Head& head, S3Range range) {
  const std::string digest = digest_of(key);
  const uint64_t first = place_of(range.first).page;
  const uint64_t count =
      place_of(range.first + std::max<uint64_t>(range.count, 1) - 1).page + 1 - first;
  S3Request request;
  request.path = s3_sums_path(digest, head.state.version);
  request.range_first = first * kSumsPageBytes;
  request.range_count = count * kSumsPageBytes;
  request.max_answer = std::max<size_t>(request.range_count, 64 << 10);
  auto answer = client_->send(request);
  if (!answer) return fail(answer.error());
  if (answer->status == 404 || answer->status == 416) {
    // An update has replaced the object, or they are lost.
    auto now = find(key);
    if (!now && now.error().code != Code::kNotFound) return fail(now.error());
    if (!now || now->state.version != head.state.version) return fail(conflict());
    return fail(damaged(key, range.first * kPartBytes,
                        fmt::format("its checksums {} are missing", request.path)));
  }
  if (!answer->good()) return fail(client_->failed("cannot read checksums", request, *answer));
  S3Sums sums{.first = first, .pages = std::vector<SumsPage>(count)};
  if (answer->body.size() != count * kSumsPageBytes) {
    return fail(damaged(key, range.first * kPartBytes,
                        fmt::format("its checksums {} are cut", request.path)));
  }
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(sums.pages[i].data(), answer->body.data() + i * kSumsPageBytes, kSumsPageBytes);
  }
  if (first > 0) return sums;
  const auto written = decode_sums_head(sums.pages[0]);
  if (!written || digest_of(written->key) != digest || written->state != head.state) {
    return fail(damaged(
        key, 0,
        fmt::format("its checksums {} are damaged: {}", request.path,
                    written ? "they are those of another state" : name_of(written.error()))));
  }
  return sums;
}

Result<void> S3Impl::take_parts(const Key& key, const std::string& bytes, uint64_t first,
                                const S3Sums* sums, std::span<PartToLoad> parts) const {
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t at = std::min(i * kPartBytes, bytes.size());
    const size_t there = std::min<size_t>(bytes.size() - at, kPartBytes);
    std::memcpy(parts[i].bytes, bytes.data() + at, there);
    std::memset(parts[i].bytes + there, 0, kPartBytes - there);
    parts[i].crc = store::crc_of({parts[i].bytes, kPartBytes});
    if (sums == nullptr) continue;
    const auto expected = sums->crc_of_part(first + i);
    if (expected == parts[i].crc) continue;
    const uint64_t offset = (first + i) * kPartBytes;
    if (!expected) return fail(damaged(key, offset, "a page of its checksums is damaged"));
    Error error = damaged(key, offset, fmt::format("it is damaged at offset {}", offset));
    error.damage.expected = fmt::format("{:08x}", *expected);
    error.damage.actual = fmt::format("{:08x}", parts[i].crc);
    return fail(std::move(error));
  }
  return {};
}

Result<void> S3Impl::load(const Key& key, uint64_t version, uint64_t first,
                          std::span<PartToLoad> parts) {
  auto head = find(key);
  if (!head) return fail(head.error());
  if (head->state.version != version) return fail(conflict());
  const uint64_t all = parts_of(head->state.size);
  if (first > all || parts.size() > all - first) {
    return fail(Error{Code::kInvalid, "parts after the end of the object", {}});
  }
  if (parts.empty()) return {};
  std::optional<S3Sums> sums;
  if (!head->adopted) {
    auto read = read_sums(key, *head, {first, parts.size()});
    if (!read) return fail(read.error());
    sums = std::move(*read);
  }
  const S3Sums* const expected = sums ? &*sums : nullptr;
  const auto load_some = [&](uint64_t at, std::span<PartToLoad> some) -> Result<void> {
    auto bytes = read_bytes(key, *head, {at, some.size()});
    if (!bytes) return fail(bytes.error());
    return take_parts(key, *bytes, at, expected, some);
  };
  if (parts.size() <= kRequestParts) return load_some(first, parts);
  Result<void> result;
  S3Flight flight(client_->options().in_flight);
  for (uint64_t at = 0; at < parts.size() && result; at += kRequestParts) {
    const auto some = parts.subspan(at, std::min<uint64_t>(kRequestParts, parts.size() - at));
    flight.start([&, at, some]() -> S3Flight::Done {
      return [&result, done = load_some(first + at, some)] {
        if (result && !done) result = done;
      };
    });
  }
  flight.wait_all();
  return result;
}

}  // namespace verbena::backend
