// SPDX-License-Identifier: Apache-2.0
// The inside of S3Tier: s3_tier.cc answers and removes, s3_load.cc reads, s3_update.cc
// and s3_commit.cc write, s3_garbage.cc looks after what others have left.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/s3_client.h"
#include "backend/s3_flight.h"
#include "backend/s3_lease.h"
#include "backend/sums.h"

namespace verbena::backend {

// Pages [first, first + pages.size()) of the sums of a version; each may be damaged.
struct S3Sums {
  uint64_t first = 0;
  std::vector<SumsPage> pages;
  // None: its page is damaged.
  [[nodiscard]] std::optional<uint32_t> crc_of_part(uint64_t part) const {
    const SumsPlace place = place_of(part);
    const SumsPage& page = pages[place.page - first];
    if (!is_sealed(page, place.page)) return std::nullopt;
    return crc_at(page, place);
  }
};

// Some parts of one version.
struct S3Range {
  uint64_t first = 0;
  uint64_t count = 0;
};

class S3Impl final : public S3Tier {
 public:
  S3Impl(std::unique_ptr<S3Client> client, std::unique_ptr<S3Lease> lease)
      : client_(std::move(client)), lease_(std::move(lease)) {}
  ~S3Impl() override;

  [[nodiscard]] std::string describe() const override { return "S3 bucket " + client_->name(); }
  [[nodiscard]] bool is_guarded() const override { return lease_->conditional(); }
  [[nodiscard]] uint64_t removed_leftovers() const override { return removed_; }
  [[nodiscard]] Result<State> state(const Key& key) override;
  [[nodiscard]] Result<void> list(const Each& each) override;
  [[nodiscard]] Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                  std::span<PartToLoad> parts) override;
  [[nodiscard]] Result<std::unique_ptr<Update>> update(const Key& key,
                                                       const NewState& wanted) override;
  [[nodiscard]] Result<void> remove(const Key& key, uint64_t version) override;

  // Uploads of owners that are gone, and sums of no object. Before anything else is done.
  [[nodiscard]] Result<void> remove_garbage();

 private:
  friend class S3Update;

  [[nodiscard]] Result<S3Head> find(const Key& key);
  [[nodiscard]] Error damaged(const Key& key, uint64_t offset, const std::string& what) const;
  [[nodiscard]] Error conflict() const;
  [[nodiscard]] Result<S3Head> head_in(const Key& key, const S3Answer& answer, uint64_t size) const;
  // Bytes of this very version; kConflict if there is another one.
  [[nodiscard]] Result<std::string> read_bytes(const Key& key, const S3Head& head, S3Range range);
  // Those of these parts. kDamaged: there are none, or they are of something else.
  [[nodiscard]] Result<S3Sums> read_sums(const Key& key, const S3Head& head, S3Range range);
  // Bytes as they were read, to where they are wanted. No sums: adopted.
  [[nodiscard]] Result<void> take_parts(const Key& key, const std::string& bytes, uint64_t first,
                                        const S3Sums* sums, std::span<PartToLoad> parts) const;
  [[nodiscard]] Result<void> list_page(const std::vector<std::string>& paths, const Each& each,
                                       bool& more);
  [[nodiscard]] Result<void> abort_uploads();
  // Uploads to this key, if the id of the one that was begun is not known. False: some may be left.
  [[nodiscard]] bool abort_all_of(const std::string& path);
  // Whether no object has these sums. They say themselves whose they are: a listing that is short
  // is no reason to remove them.
  [[nodiscard]] Result<bool> are_of_nobody(const std::string& path, const S3Version& name);
  // Nothing depends on it: what fails is left over.
  void remove_quietly(const std::string& path);
  bool abort_quietly(const std::string& path, const std::string& upload);

  const std::unique_ptr<S3Client> client_;
  const std::unique_ptr<S3Lease> lease_;
  uint64_t removed_ = 0;
  // Relaxed: read when nobody else is left.
  std::atomic<bool> left_over_ = false;
};

[[nodiscard]] inline std::string s3_sums_path(const std::string& digest, uint64_t version) {
  return std::string(kS3Sums) + text_of(S3Version{digest, version});
}
[[nodiscard]] inline std::string s3_upload_path(const std::string& digest, uint64_t version) {
  return std::string(kS3Uploads) + text_of(S3Version{digest, version});
}

}  // namespace verbena::backend
