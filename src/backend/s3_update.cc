// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_update.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backend/object_path.h"
#include "backend/s3_xml.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

[[nodiscard]] Error invalid_s3_update(const char* what) { return {Code::kInvalid, what, {}}; }

}  // namespace

S3Update::S3Update(S3Impl& tier, Key key, const NewState& wanted)
    : tier_(tier),
      key_(std::move(key)),
      wanted_(wanted),
      path_(s3_path_of(key_)),
      digest_(digest_of(key_)),
      part_count_(parts_of(wanted.state.size)),
      piece_parts_(part_count_ > kS3PieceParts * kMaxS3Pieces ? 2 * kS3PieceParts : kS3PieceParts),
      piece_count_((part_count_ + piece_parts_ - 1) / piece_parts_),
      flight_(tier.client_->options().in_flight) {}

S3Update::~S3Update() {
  const MutexLock lock(mutex_);
  flight_.wait_all();
  if (keep_) return;
  if (!upload_id_.empty()) {
    if (tier_.abort_quietly(path_, upload_id_)) {
      tier_.remove_quietly(s3_upload_path(digest_, wanted_.state.version));
    }
  } else if (recorded_) {
    tier_.left_over_.store(true, std::memory_order_relaxed);  // the next opening looks for it
  }
  if (sums_written_) tier_.remove_quietly(s3_sums_path(digest_, wanted_.state.version));
}

Result<std::optional<S3Head>> S3Update::find_version(const Key& key,
                                                     std::optional<uint64_t> version) {
  auto found = tier_.find(key);
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (found.has_value() != version.has_value() || (found && found->state.version != *version)) {
    return fail(tier_.conflict());
  }
  if (!found) return std::optional<S3Head>{};
  return std::optional<S3Head>(std::move(*found));
}

Result<void> S3Update::begin() {
  const State& state = wanted_.state;
  if (state.version == 0 || state.version == wanted_.base) {
    return fail(invalid_s3_update("a new version needs a number of its own"));
  }
  if (state.size > kMaxS3Bytes) {
    return fail(Error{Code::kUnsupported, "in S3 this tier holds objects of up to 154 GiB", {}});
  }
  if (auto ours = tier_.lease_->check(); !ours) return ours;
  auto base = find_version(key_, wanted_.base);
  if (!base) return fail(base.error());
  base_ = from_ = std::move(*base);
  if (wanted_.source) {
    auto source = find_version(wanted_.source->key, wanted_.source->version);
    if (!source) return fail(source.error());
    from_ = std::move(*source);
    from_key_ = wanted_.source->key;
  }
  const MutexLock lock(mutex_);
  crcs_.assign(part_count_, store::crc_of_zeros(kPartBytes));
  etags_.resize(piece_count_);
  sent_.resize(piece_count_);
  return {};
}

Result<void> S3Update::noted(Error error) {
  if (!error_) error_ = error;
  return fail(std::move(error));
}

Result<void> S3Update::claim(uint64_t first, uint64_t count) {
  if (error_) return fail(*error_);
  if (first > part_count_ || count > part_count_ - first) {
    return noted(invalid_s3_update("parts after the object's end"));
  }
  if (!written_.add(first, first + count)) {
    return noted(invalid_s3_update("a part is written twice"));
  }
  return {};
}

Result<void> S3Update::put(uint64_t first, std::span<const PartToPut> parts) {
  const MutexLock lock(mutex_);
  if (auto claimed = claim(first, parts.size()); !claimed) return claimed;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts_[first + i].assign(parts[i].bytes, parts[i].bytes + kPartBytes);
    crcs_[first + i] = parts[i].crc;
  }
  send_complete(first, parts.size());
  if (error_) return fail(*error_);
  return {};
}

Result<void> S3Update::hole(uint64_t first, uint64_t count) {
  const MutexLock lock(mutex_);
  if (auto claimed = claim(first, count); !claimed) return claimed;
  send_complete(first, count);
  if (error_) return fail(*error_);
  return {};
}

void S3Update::send_complete(uint64_t first, uint64_t count) {
  if (piece_count_ < 2 || count == 0) return;  // one piece is sent when all is known
  for (uint64_t number = first / piece_parts_; number <= (first + count - 1) / piece_parts_;
       ++number) {
    const uint64_t begin = number * piece_parts_;
    if (written_.covers(begin, std::min(begin + piece_parts_, part_count_))) send_piece(number);
  }
}

S3Update::Piece S3Update::take_piece(uint64_t number) {
  const uint64_t begin = number * piece_parts_;
  const uint64_t end = std::min(begin + piece_parts_, part_count_);
  Piece piece{.number = number, .bytes = {}, .kept = written_.gaps(begin, end)};
  piece.bytes.resize(std::min(end * kPartBytes, wanted_.state.size) - begin * kPartBytes);
  const auto last = parts_.lower_bound(end);
  for (auto part = parts_.lower_bound(begin); part != last; part = parts_.erase(part)) {
    const size_t at = (part->first - begin) * kPartBytes;
    std::memcpy(piece.bytes.data() + at, part->second.data(),
                std::min<size_t>(kPartBytes, piece.bytes.size() - at));
  }
  return piece;
}

void S3Update::send_piece(uint64_t number) {
  if (error_ || sent_[number]) return;
  if (auto begun = begin_upload(); !begun) {
    static_cast<void>(noted(begun.error()));
    return;
  }
  sent_[number] = true;
  auto piece = std::make_shared<Piece>(take_piece(number));  // std::function copies
  flight_.start([this, piece, id = upload_id_]() -> S3Flight::Done {
    auto sent = upload(*piece, id);
    return [this, number = piece->number, sent = std::move(sent)] {
      mutex_.assert_held();
      if (!sent) {
        static_cast<void>(noted(sent.error()));
        return;
      }
      etags_[number] = sent->etag;
      for (const auto& [part, crc] : sent->crcs) crcs_[part] = crc;
    };
  });
}

Result<void> S3Update::begin_upload() {
  if (!upload_id_.empty()) return {};
  // Before it is begun, so that the next owner looks for it if the id does not come to be known.
  recorded_ = true;
  if (auto noted_down = write_record(); !noted_down) return noted_down;
  S3Request request;
  request.method = "POST";
  request.path = path_;
  request.query.emplace_back("uploads", "");
  request.headers = metadata_of(key_, wanted_.state);
  auto answer = tier_.client_->send(request);
  if (!answer) return fail(answer.error());
  if (answer->status >= 400 && answer->status < 500 && answer->tries == 1) {  // there is none
    recorded_ = false;
    tier_.remove_quietly(s3_upload_path(digest_, wanted_.state.version));
  }
  if (!answer->good()) {
    return fail(tier_.client_->failed("cannot begin an upload", request, *answer));
  }
  auto id = parse_s3_upload(answer->body);
  if (!id) return fail(Error{Code::kIo, id.error(), {}});
  upload_id_ = std::move(*id);
  return write_record();
}

// The key, and the id if it is known.
Result<void> S3Update::write_record() {
  const std::string record = path_ + "\n" + upload_id_;
  S3Request request;
  request.method = "PUT";
  request.path = s3_upload_path(digest_, wanted_.state.version);
  request.body = record;
  auto answer = tier_.client_->ask(request, "cannot write the record of an upload");
  if (!answer) return fail(answer.error());
  return {};
}

Result<S3Update::Sent> S3Update::upload(Piece& piece, const std::string& upload_id) {
  auto kept = fill(piece);
  if (!kept) return fail(kept.error());
  S3Request request;
  request.method = "PUT";
  request.path = path_;
  request.query.emplace_back("partNumber", std::to_string(piece.number + 1));
  request.query.emplace_back("uploadId", upload_id);
  request.body = piece.bytes;
  auto answer = tier_.client_->ask(request, "cannot write it");
  if (!answer) {
    Error error = answer.error();
    // The upload is gone, not the object.
    if (error.code == Code::kNotFound) error.code = Code::kIo;
    return fail(std::move(error));
  }
  std::string etag = answer->header("etag");
  if (etag.empty()) {
    return fail(Error{Code::kIo,
                      fmt::format("S3 {}: {}: a piece was written, and the answer has no ETag",
                                  tier_.client_->name(), path_),
                      {}});
  }
  return Sent{std::move(etag), std::move(*kept)};
}

Result<S3Update::Crcs> S3Update::fill(Piece& piece) {
  Crcs crcs;
  if (!from_) return crcs;  // what is not put is zeros
  for (const PartRange& range : piece.kept) {
    const uint64_t end = std::min(range.end, parts_of(from_->state.size));
    if (range.first >= end) continue;
    const S3Range wanted{range.first, end - range.first};
    std::optional<S3Sums> sums;
    if (!from_->adopted) {
      auto read = tier_.read_sums(from_key_, *from_, wanted);
      if (!read) return fail(read.error());
      sums = std::move(*read);
    }
    auto bytes = tier_.read_bytes(from_key_, *from_, wanted);
    if (!bytes) return fail(bytes.error());
    bytes->resize(wanted.count * kPartBytes);
    for (uint64_t part = range.first; part < end; ++part) {
      std::string one = bytes->substr((part - range.first) * kPartBytes, kPartBytes);
      auto crc = keep_part(part, one, sums ? &*sums : nullptr);
      if (!crc) return fail(crc.error());
      const size_t at = (part - piece.number * piece_parts_) * kPartBytes;
      std::memcpy(piece.bytes.data() + at, one.data(),
                  std::min<size_t>(kPartBytes, piece.bytes.size() - at));
      crcs.emplace_back(part, *crc);
    }
  }
  return crcs;
}

// The CRC of a part that stays is kept as it is, so that damage stays damage. A part that is cut,
// because the object becomes shorter, is verified and gets a new one.
Result<uint32_t> S3Update::keep_part(uint64_t part, std::string& bytes, const S3Sums* sums) const {
  const auto crc_now = [&] {
    return store::crc_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  };
  const uint64_t offset = part * kPartBytes;
  uint32_t crc = 0;
  if (sums == nullptr) {
    crc = crc_now();
  } else {
    const auto written = sums->crc_of_part(part);
    if (!written)
      return fail(tier_.damaged(from_key_, offset, "a page of its checksums is damaged"));
    crc = *written;
  }
  const uint64_t size = wanted_.state.size;
  if (size >= from_->state.size || offset + kPartBytes <= size) return crc;
  if (crc_now() != crc) {
    return fail(
        tier_.damaged(from_key_, offset, fmt::format("it is damaged at offset {}", offset)));
  }
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(size - offset), bytes.end(), '\0');
  return crc_now();
}

}  // namespace verbena::backend
