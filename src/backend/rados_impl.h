// SPDX-License-Identifier: Apache-2.0
// The inside of RadosTier: rados_tier.cc answers and removes, rados_update.cc writes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/rados_format.h"
#include "backend/rados_lease.h"
#include "backend/rados_pool.h"
#include "backend/rados_tier.h"
#include "backend/stripe_memory.h"

namespace verbena::backend {

// A head as it was read: the value itself is what a change is compared with.
struct FoundHead {
  std::string digest;
  std::string value;
  RadosHead head;
};

// Some parts of a stripe, as they are read. `bytes` is where they go, kPartBytes for each part.
struct StripeRead {
  StripeName name;
  uint64_t first = 0;  // in the stripe
  uint64_t count = 0;
  std::vector<uint8_t> table;
  StripeMemory::Piece bytes{};
  size_t table_read = 0;
  size_t bytes_read = 0;
  int table_error = 0;
  int bytes_error = 0;
  int result = 0;
};

class RadosImpl final : public RadosTier {
 public:
  RadosImpl(std::unique_ptr<RadosPool> pool, std::unique_ptr<RadosLease> lease,
            const RadosOptions& options)
      : options_(options), pool_(std::move(pool)), lease_(std::move(lease)) {}
  ~RadosImpl() override;

  [[nodiscard]] std::string describe() const override { return "RADOS pool " + pool_->name(); }
  [[nodiscard]] uint64_t epoch() const override { return lease_->epoch(); }
  [[nodiscard]] uint64_t removed_stripes() const override { return removed_; }
  [[nodiscard]] Result<State> state(const Key& key) override;
  [[nodiscard]] Result<void> list(const Each& each) override;
  [[nodiscard]] Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                  std::span<PartToLoad> parts) override;
  [[nodiscard]] Result<std::unique_ptr<Update>> update(const Key& key,
                                                       const NewState& wanted) override;
  [[nodiscard]] Result<void> remove(const Key& key, uint64_t version) override;

  // Stripes that no head lists: of updates that were not completed. Before anything else is done.
  [[nodiscard]] Result<void> remove_garbage();

 private:
  friend class RadosUpdate;

  [[nodiscard]] Result<FoundHead> find(const Key& key);
  [[nodiscard]] Error damaged(const Key& key, uint64_t offset, std::string what) const;
  // Switches a head, if it is still `before` (empty: there is none) and the lease is ours. An empty
  // `after` removes it.
  [[nodiscard]] Result<void> switch_head(const std::string& digest, const std::string& before,
                                         const std::string& after);
  // Those of `stripes` that are not in `kept`. What fails is garbage for the next opening.
  void remove_stripes(const std::string& digest, const std::vector<uint64_t>& stripes,
                      const std::vector<uint64_t>& kept);
  // `done` is called when it is read.
  void begin_read(RadosFlight& flight, StripeRead& read, std::function<void()> done);
  // The CRCs of all parts of the stripe, when it was read. kNotFound: it is gone.
  [[nodiscard]] Result<StripeTable> check_read(const Key& key, const StripeRead& read) const;
  // What was read goes to where it is wanted, verified.
  [[nodiscard]] Result<void> take_parts(const Key& key, const StripeRead& read,
                                        std::span<PartToLoad> parts) const;

  const RadosOptions options_;
  const std::unique_ptr<RadosPool> pool_;
  const std::unique_ptr<RadosLease> lease_;
  uint64_t removed_ = 0;
  StripeMemory memory_{kStripeDataAt + kStripeBytes, options_.in_flight};
  // Relaxed: read when nobody else is left.
  std::atomic<bool> left_over_ = false;
};

}  // namespace verbena::backend
