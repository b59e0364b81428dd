// SPDX-License-Identifier: Apache-2.0
// Salvage by what can be read of index and log. Bare chunks and old records are asked only for what
// is lost there.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "store/salvage_copy.h"

namespace verbena::store {

class SalvagePart {
 public:
  // `from` was opened with Options::partial, and reported these losses.
  SalvagePart(SalvageCopy& copy, Store& from, const IndexLoss& lost, RawChunks& raw,
              const RawFindings& found)
      : copy_(copy), from_(from), lost_(lost), raw_(raw), found_(found) {}
  [[nodiscard]] Result<void> run();

 private:
  void note_lost_index();
  [[nodiscard]] Result<void> bring(ObjectInfo object);
  void take_name(ObjectInfo& object);
  [[nodiscard]] Result<void> bring_bytes(const ObjectInfo& object);
  [[nodiscard]] Result<void> bring_chunk(const ObjectInfo& object, uint64_t index,
                                         const RawHistory::Chunk& chunk, uint64_t size);
  [[nodiscard]] Result<void> bring_runs(const ObjectInfo& object,
                                        const std::vector<NumberRange>& runs);
  [[nodiscard]] Result<void> bring_newer(const ObjectInfo& object);
  [[nodiscard]] Result<void> bring_unknown(const std::set<uint64_t>& known);

  SalvageCopy& copy_;
  Store& from_;
  const IndexLoss& lost_;
  RawChunks& raw_;
  const RawFindings& found_;
};

}  // namespace verbena::store
