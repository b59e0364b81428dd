// SPDX-License-Identifier: Apache-2.0
// Replays what is left of index and log, for salvage. What is in doubt gives way to what is
// certain; records that make no sense without those that are lost are left out.
#pragma once

#include <string>

#include "store/index_loss.h"
#include "store/partial_index.h"
#include "store/replay.h"

namespace verbena::store {

class PartialReplay {
 public:
  PartialReplay(Replay& replay, IndexLoss& lost) : replay_(replay), lost_(lost) {}
  // Fails where what is certain contradicts itself.
  [[nodiscard]] verbena::Result<void, std::string> add(const PartialIndex& index);
  // A record of the log.
  void apply(const Record& record);
  // One that is not applied, because its transaction is not whole.
  void drop(const Record& record);

 private:
  [[nodiscard]] verbena::Result<void, std::string> add(const PartialIndex::Entry& entry);
  [[nodiscard]] bool is_doubtful(uint64_t number) const {
    return lost_.objects.find(number) != nullptr;
  }
  void take_name(std::string_view name, uint64_t number);
  Replay& replay_;
  IndexLoss& lost_;
};

}  // namespace verbena::store
