// SPDX-License-Identifier: Apache-2.0
// Puts of many files into one store: opened with the first, made durable every few hundred.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store_cli/opening.h"
#include "store_cli/put_object.h"

namespace verbena::store_cli {

class PutSession {
 public:
  PutSession(const StoreChoice& choice, ProgressBar& bar, Report& report)
      : choice_(choice), report_(report), transferred_{bar} {}

  // False: there is no store to go on with, and `report` knows why.
  [[nodiscard]] bool open();
  [[nodiscard]] store::Objects& store() { return opened_->objects(); }
  // A regular file; what goes wrong is told to the report. False: nothing more can be done, for
  // the store has failed or a signal came.
  [[nodiscard]] bool put(const std::string& path, const std::string& object, bool only_new);
  // For a while there is nothing to put: everything so far is durable, and others may have the
  // store.
  void pause();
  void close();  // at the end

  [[nodiscard]] uint64_t objects() const { return objects_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool created() const { return created_; }

 private:
  [[nodiscard]] bool commit();

  static constexpr uint64_t kCommitObjects = 256;
  const StoreChoice& choice_;
  Report& report_;
  Transferred transferred_;
  std::optional<OpenedObjects> opened_;
  uint64_t objects_ = 0;
  uint64_t bytes_ = 0;
  uint64_t open_objects_ = 0;  // not yet durable
  bool created_ = false;
};

}  // namespace verbena::store_cli
