// SPDX-License-Identifier: Apache-2.0
// Any bytes as what an S3 service answers: XML, headers and objects of our own. What decodes
// encodes to the same text.
#include <string>
#include <string_view>

#include "backend/s3_credentials.h"
#include "backend/s3_format.h"
#include "backend/s3_xml.h"
#include "base/check.h"

namespace verbena::backend {
namespace {

void take_xml(std::string_view text) {
  if (const auto listing = parse_s3_listing(text)) {
    for (const std::string& key : listing->keys) {
      VERBENA_CHECK(url_decoded(url_encoded(key, true)) == key);
      if (const auto object = key_of_s3_path(key)) VERBENA_CHECK(s3_path_of(*object) == key);
    }
    VERBENA_CHECK(!parse_s3_fault(text) && !parse_s3_upload(text));
  }
  if (const auto upload = parse_s3_upload(text)) VERBENA_CHECK(!upload->empty());
  if (const auto uploads = parse_s3_uploads(text)) {
    for (const S3UploadEntry& upload : *uploads) VERBENA_CHECK(!upload.id.empty());
    VERBENA_CHECK(!is_s3_upload_end(text));
  }
}

// "name: value" lines, as a client has them.
void take_headers(std::string_view text) {
  S3Headers headers;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      headers[std::string(line.substr(0, colon))] = line.substr(colon + 1);
  }
  const std::string digest = headers["x-amz-meta-verbena-key"];
  for (const uint64_t size : {uint64_t{0}, uint64_t{5000}}) {
    const auto head = parse_s3_head(headers, size, digest);
    VERBENA_CHECK(!head || (head->state.version != 0 && head->state.size == size));
  }
}

void take_texts(std::string_view text) {
  if (const auto lease = parse_s3_lease(text))
    VERBENA_CHECK(parse_s3_lease(text_of(*lease)) == lease);
  if (const auto version = parse_s3_version(text)) VERBENA_CHECK(text_of(*version) == text);
  if (const auto range = parse_content_range(text)) {
    VERBENA_CHECK(range->first <= range->last && range->last < range->size);
  }
  if (const auto object = key_of_s3_path(text)) VERBENA_CHECK(s3_path_of(*object) == text);
  if (const auto date = parse_http_date(text)) VERBENA_CHECK(*date < int64_t{1} << 40);
  const auto keys = parse_s3_credentials(text, "default");
  VERBENA_CHECK(!keys || !keys->secret_key.empty());
}

}  // namespace
}  // namespace verbena::backend

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  verbena::backend::take_xml(text);
  verbena::backend::take_headers(text);
  verbena::backend::take_texts(text);
  return 0;
}
