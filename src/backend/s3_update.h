// SPDX-License-Identifier: Apache-2.0
// A new version of an object in a bucket, which is written whole. An object of more than one piece
// is a multipart upload: a piece is sent as soon as all of its parts are known, the rest at
// commit(), with what stays read from the base or the source. Then the sums are written, and the
// object is switched: by the end of the upload, or by one PUT if it has one piece.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/part_ranges.h"
#include "backend/s3_impl.h"
#include "base/mutex.h"

namespace verbena::backend {

// A piece has 2048 parts (7.9 MiB; the service wants 5 at least), or twice that in objects that
// would have more than 10,000, as many as an upload may have.
inline constexpr uint64_t kS3PieceParts = 2048;
inline constexpr uint64_t kMaxS3Pieces = 10'000;
inline constexpr uint64_t kMaxS3Bytes = 2 * kS3PieceParts * kMaxS3Pieces * kPartBytes;

class S3Update final : public Update {
 public:
  S3Update(S3Impl& tier, Key key, const NewState& wanted);
  ~S3Update() override;
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<void> put(uint64_t first, std::span<const PartToPut> parts) override;
  [[nodiscard]] Result<void> hole(uint64_t first, uint64_t count) override;
  [[nodiscard]] Result<void> commit() override;

 private:
  using Crcs = std::vector<std::pair<uint64_t, uint32_t>>;  // of parts
  struct Piece {
    uint64_t number = 0;
    std::string bytes;
    std::vector<PartRange> kept;  // as in the base: not in `bytes` yet
  };
  struct Sent {
    std::string etag;
    Crcs crcs;  // of parts that are kept
  };

  // What there is of this version; none: there is no object.
  [[nodiscard]] Result<std::optional<S3Head>> find_version(const Key& key,
                                                           std::optional<uint64_t> version);
  [[nodiscard]] Result<void> claim(uint64_t first, uint64_t count) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> noted(Error error) VERBENA_REQUIRES(mutex_);
  // Sends those of the pieces with parts [first, first + count) that are complete.
  void send_complete(uint64_t first, uint64_t count) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Piece take_piece(uint64_t number) VERBENA_REQUIRES(mutex_);
  void send_piece(uint64_t number) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> begin_upload() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> write_record() VERBENA_REQUIRES(mutex_);
  // On a thread of the flight: these use nothing that the mutex guards.
  [[nodiscard]] Result<Sent> upload(Piece& piece, const std::string& upload_id);
  [[nodiscard]] Result<Crcs> fill(Piece& piece);
  [[nodiscard]] Result<uint32_t> keep_part(uint64_t part, std::string& bytes,
                                           const S3Sums* sums) const;

  [[nodiscard]] Result<void> write_sums() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> check_base();
  // The last step. Whether an answer that is not clear has meant success is told by the object.
  [[nodiscard]] Result<void> switch_object(const S3Request& request) VERBENA_REQUIRES(mutex_);
  void add_condition(S3Request& request) const;

  S3Impl& tier_;
  const Key key_;
  const NewState wanted_;
  const std::string path_;
  const std::string digest_;
  const uint64_t part_count_;
  const uint64_t piece_parts_;
  const uint64_t piece_count_;
  std::optional<S3Head> base_;  // which it replaces
  std::optional<S3Head> from_;  // what it begins from: the base, or another object
  Key from_key_ = key_;

  Mutex mutex_;
  PartRanges written_ VERBENA_GUARDED_BY(mutex_);
  std::map<uint64_t, std::vector<uint8_t>> parts_ VERBENA_GUARDED_BY(mutex_);  // not sent yet
  std::vector<uint32_t> crcs_ VERBENA_GUARDED_BY(mutex_);
  std::vector<std::string> etags_ VERBENA_GUARDED_BY(mutex_);  // of pieces
  std::vector<bool> sent_ VERBENA_GUARDED_BY(mutex_);
  std::string upload_id_ VERBENA_GUARDED_BY(mutex_);
  bool recorded_ VERBENA_GUARDED_BY(mutex_) = false;  // that there is an upload
  std::optional<Error> error_ VERBENA_GUARDED_BY(mutex_);
  bool sums_written_ = false;
  // The new version is there, or may be: nothing of it is removed.
  bool keep_ = false;
  S3Flight flight_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::backend
