// SPDX-License-Identifier: Apache-2.0
// What an S3 service answers in XML, and the one document that it is sent. Answers are of anybody:
// documents with a DTD (and so with entities of their own), with too many elements, too deep or
// with too much text are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::backend {

inline constexpr size_t kMaxXmlBytes = size_t{8} << 20;

struct S3Listing {
  std::vector<std::string> keys;
  std::string next;  // the token that continues it; empty: that was all
};
// Of ListObjectsV2 with encoding-type=url. The error says what is wrong with the answer.
[[nodiscard]] verbena::Result<S3Listing, std::string> parse_s3_listing(std::string_view body);
// Of ListMultipartUploads: those on its first page.
struct S3UploadEntry {
  std::string key;
  std::string id;
  bool operator==(const S3UploadEntry&) const = default;
};
[[nodiscard]] verbena::Result<std::vector<S3UploadEntry>, std::string> parse_s3_uploads(
    std::string_view body);
// Whether it is what CompleteMultipartUpload answers when it was done.
[[nodiscard]] bool is_s3_upload_end(std::string_view body);
// Of CreateMultipartUpload.
[[nodiscard]] verbena::Result<std::string, std::string> parse_s3_upload(std::string_view body);

// Also in answers that begin with status 200.
struct S3Fault {
  std::string code;
  std::string message;
};
// None: the body is not an error.
[[nodiscard]] std::optional<S3Fault> parse_s3_fault(std::string_view body);

// For CompleteMultipartUpload: the ETags of parts 1, 2, ...
[[nodiscard]] std::string s3_parts_document(std::span<const std::string> etags);

}  // namespace verbena::backend
