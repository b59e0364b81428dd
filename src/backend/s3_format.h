// SPDX-License-Identifier: Apache-2.0
// What is in a bucket (docs/backend.md): the keys, relative to the tier's prefix, and the texts in
// them and in headers. Nothing here asks the service.
//
//   NAME                              an object, or one of another program
//   .verbena/names/..., .verbena/ids/...   as in a directory (object_path.h)
//   .verbena/sums/DIGEST-VERSION      the CRCs of one version (sums.h)
//   .verbena/uploads/DIGEST-VERSION   an upload under way: its key and its id
//   .verbena/lease                    who has the tier
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backend/tier.h"

namespace verbena::backend {

inline constexpr std::string_view kS3Sums = ".verbena/sums/";
inline constexpr std::string_view kS3Uploads = ".verbena/uploads/";
inline constexpr std::string_view kS3Lease = ".verbena/lease";
inline constexpr size_t kMaxS3KeyBytes = 1024;

// Of an answer: names in small letters.
using S3Headers = std::map<std::string, std::string>;

// Everything but unreserved characters becomes %XX, and "/" only if it is not kept.
[[nodiscard]] std::string url_encoded(std::string_view text, bool keep_slashes);
// None if a "%" is not followed by two digits.
[[nodiscard]] std::optional<std::string> url_decoded(std::string_view text);

// Where an object is, and which object a key is; none: it is no object.
[[nodiscard]] std::string s3_path_of(const Key& key);
[[nodiscard]] std::optional<Key> key_of_s3_path(std::string_view path);

// "DIGEST-VERSION", of sums and uploads.
struct S3Version {
  std::string digest;
  uint64_t version = 0;
  bool operator==(const S3Version&) const = default;
};
[[nodiscard]] std::string text_of(const S3Version& version);
[[nodiscard]] std::optional<S3Version> parse_s3_version(std::string_view text);

// What the headers of an object say.
struct S3Head {
  State state;
  ObjectId id;
  std::string etag;
  bool adopted = false;  // of another program
  bool operator==(const S3Head&) const = default;
};
[[nodiscard]] S3Headers metadata_of(const Key& key, const State& state);
// `size` is that of the whole object. An object without our metadata, or with those of another key
// (a copy), is adopted: its version is made of its ETag and size. The error says what is wrong.
[[nodiscard]] verbena::Result<S3Head, std::string> parse_s3_head(const S3Headers& headers,
                                                                 uint64_t size,
                                                                 const std::string& digest);

// "Sun, 06 Nov 1994 08:49:37 GMT", in seconds since 1970.
[[nodiscard]] std::optional<int64_t> parse_http_date(std::string_view text);
// The size of the whole: 7 of "bytes 1-2/7". And what is from 1 on.
struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t size = 0;
  bool operator==(const ContentRange&) const = default;
};
[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view text);
[[nodiscard]] std::optional<uint64_t> parse_decimal(std::string_view text);

struct S3LeaseText {
  enum class State : uint8_t { kHeld, kReleased, kClosed };  // closed: and nothing is left over
  State state = State::kHeld;
  std::string owner;  // a random text
  std::string where;  // for people
  uint32_t lease_s = 0;
  uint64_t renewed = 0;  // how often, so that no two texts are equal
  bool operator==(const S3LeaseText&) const = default;
};
[[nodiscard]] std::string text_of(const S3LeaseText& lease);
[[nodiscard]] std::optional<S3LeaseText> parse_s3_lease(std::string_view text);

}  // namespace verbena::backend
