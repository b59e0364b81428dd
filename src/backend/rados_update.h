// SPDX-License-Identifier: Apache-2.0
// A new version of an object in a pool. A stripe is written, under its new name, as soon as all of
// its parts are known; parts of others are kept in memory until commit() reads the rest of the
// stripe from the base, or from the source, whose stripes are copied. The head is switched when all
// stripes are written.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/part_ranges.h"
#include "backend/rados_impl.h"
#include "base/mutex.h"

namespace verbena::backend {

class RadosUpdate final : public Update {
 public:
  RadosUpdate(RadosImpl& tier, Key key, const NewState& wanted)
      : tier_(tier),
        key_(std::move(key)),
        wanted_(wanted),
        flight_(*tier.pool_, tier.options_.in_flight) {}
  ~RadosUpdate() override;
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<void> put(uint64_t first, std::span<const PartToPut> parts) override;
  [[nodiscard]] Result<void> hole(uint64_t first, uint64_t count) override;
  [[nodiscard]] Result<void> commit() override;

 private:
  // A stripe that is not written yet. A part without bytes is a hole.
  struct Draft {
    struct Part {
      std::vector<uint8_t> bytes;
      uint32_t crc = 0;
    };
    std::map<uint64_t, Part> parts;  // by their number in the stripe
  };

  // The head of this version; an empty one if there is no object.
  [[nodiscard]] Result<FoundHead> find_version(const Key& key, std::optional<uint64_t> version);
  // How many parts of the stripe there are in the new version.
  [[nodiscard]] uint64_t parts_in_stripe(uint64_t number) const;
  [[nodiscard]] Result<void> claim(uint64_t first, uint64_t count) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> noted(Error error) VERBENA_REQUIRES(mutex_);
  // Its parts in order, all of them; those without bytes are holes.
  void write_stripe(uint64_t number, std::span<const PartToPut> parts) VERBENA_REQUIRES(mutex_);
  void write_draft(uint64_t number, const Draft& draft) VERBENA_REQUIRES(mutex_);
  void write_if_complete(uint64_t number) VERBENA_REQUIRES(mutex_);
  // Adds what stays of what it begins from to the stripe.
  [[nodiscard]] Result<void> complete(uint64_t number, Draft& draft) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> cut(uint64_t number, uint64_t slot, Draft::Part& part) const;

  RadosImpl& tier_;
  const Key key_;
  const NewState wanted_;
  std::string digest_;
  std::string base_value_;  // empty: there is none
  RadosHead base_;
  RadosHead from_;  // what it begins from: the base, or another object
  std::string from_digest_;

  Mutex mutex_;
  PartRanges written_ VERBENA_GUARDED_BY(mutex_);
  std::map<uint64_t, Draft> drafts_ VERBENA_GUARDED_BY(mutex_);
  std::vector<uint64_t> stripes_ VERBENA_GUARDED_BY(mutex_);      // of the new version
  std::vector<uint64_t> new_stripes_ VERBENA_GUARDED_BY(mutex_);  // those that it has written
  std::optional<Error> error_ VERBENA_GUARDED_BY(mutex_);
  bool keep_stripes_ = false;  // they are in use, or may be
  RadosFlight flight_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace verbena::backend
