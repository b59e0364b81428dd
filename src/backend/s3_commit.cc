// SPDX-License-Identifier: Apache-2.0
// The end of an update: the rest of the pieces, the sums, and the switch.
#include <cstring>

#include <fmt/format.h>

#include "backend/s3_update.h"
#include "backend/s3_xml.h"

namespace verbena::backend {

Result<void> S3Update::commit() {
  const MutexLock lock(mutex_);
  if (error_) return fail(*error_);
  S3Request request;
  request.path = path_;
  std::string body;
  if (piece_count_ < 2) {
    Piece piece = take_piece(0);
    auto kept = fill(piece);
    if (!kept) return noted(kept.error());
    for (const auto& [part, crc] : *kept) crcs_[part] = crc;
    body = std::move(piece.bytes);
    request.method = "PUT";
    request.headers = metadata_of(key_, wanted_.state);
  } else {
    for (uint64_t number = 0; number < piece_count_; ++number) send_piece(number);
    flight_.wait_all();
    if (error_) return fail(*error_);
    body = s3_parts_document(etags_);
    request.method = "POST";
    request.query.emplace_back("uploadId", upload_id_);
  }
  request.body = body;
  error_ = Error{Code::kInvalid, "the update was committed before", {}};
  if (auto written = write_sums(); !written) return written;
  if (auto same = check_base(); !same) return same;
  if (auto ours = tier_.lease_->check(); !ours) return ours;
  add_condition(request);
  if (auto switched = switch_object(request); !switched) return switched;
  if (!upload_id_.empty()) {
    tier_.remove_quietly(s3_upload_path(digest_, wanted_.state.version));
  }
  if (base_ && !base_->adopted) {
    tier_.remove_quietly(s3_sums_path(digest_, base_->state.version));
  }
  return {};
}

Result<void> S3Update::write_sums() {
  std::string bytes(pages_for(part_count_) * kSumsPageBytes, '\0');
  SumsPage page{};
  encode(SumsHead{.key = key_, .state = wanted_.state, .file_modified_ns = 0}, page);
  uint64_t part = 0;
  for (uint64_t index = 0; index < pages_for(part_count_); ++index, page.fill(0)) {
    for (; part < part_count_ && place_of(part).page == index; ++part) {
      set_crc(page, place_of(part), crcs_[part]);
    }
    seal(page, index);
    std::memcpy(bytes.data() + index * kSumsPageBytes, page.data(), kSumsPageBytes);
  }
  S3Request request;
  request.method = "PUT";
  request.path = s3_sums_path(digest_, wanted_.state.version);
  request.body = bytes;
  sums_written_ = true;  // also if the answer is lost
  auto answer = tier_.client_->ask(request, "cannot write its checksums");
  if (!answer) return fail(answer.error());
  return {};
}

Result<void> S3Update::check_base() {
  auto now = tier_.find(key_);
  if (!now && now.error().code != Code::kNotFound) return fail(now.error());
  if (now.has_value() != base_.has_value() || (now && *now != *base_)) {
    return fail(tier_.conflict());
  }
  return {};
}

void S3Update::add_condition(S3Request& request) const {
  if (!tier_.lease_->conditional()) return;
  if (base_) {
    request.headers["if-match"] = tier_.lease_->condition(base_->etag);
  } else {
    request.headers["if-none-match"] = "*";
  }
}

Result<void> S3Update::switch_object(const S3Request& request) {
  keep_ = true;
  auto answer = tier_.client_->send(request);
  // The end of an upload can begin with 200, and then be an error. And who answers 200 may be
  // somebody else, on the way.
  const bool done =
      answer && answer->good() &&
      (upload_id_.empty() ? !answer->header("etag").empty() : is_s3_upload_end(answer->body));
  if (done) return {};
  Error error =
      answer ? tier_.client_->failed("cannot switch the object", request, *answer) : answer.error();
  if (error.code == Code::kNotFound) error.code = Code::kIo;  // the upload is gone
  // Perhaps it was done, or an earlier try, and the answer was lost.
  auto now = tier_.find(key_);
  if (now && now->state == wanted_.state) return {};
  const bool known = now || now.error().code == Code::kNotFound;
  const bool refused = answer && answer->status >= 400 && answer->status < 500;
  // An earlier try could still be done, unless its condition does not hold any more.
  const bool condition_failed = tier_.lease_->conditional() && upload_id_.empty() && now &&
                                (!base_ || now->etag != base_->etag);
  if (refused && known && (answer->tries == 1 || condition_failed)) {
    keep_ = false;
    return fail(std::move(error));
  }
  // What may be done yet is kept.
  tier_.left_over_.store(true, std::memory_order_relaxed);
  return fail(std::move(error));
}

}  // namespace verbena::backend
