// SPDX-License-Identifier: Apache-2.0
// The right to change a pool: a lock on the object "lease", renewed by a thread of its own, and an
// epoch, which goes up with each process that takes it. The lock ends when it is not renewed. What
// fences an owner that was stopped and wakes up is the epoch: the next owner writes it to all
// indexes before it does anything else, and every change of an index is refused unless its epoch is
// that of who wants to change it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "backend/rados_pool.h"
#include "base/mutex.h"

namespace verbena::backend {

inline constexpr const char* kEpochAttribute = "epoch";

class RadosLease {
 public:
  // kInUse: another process has it.
  [[nodiscard]] static Result<std::unique_ptr<RadosLease>> take(RadosPool& pool,
                                                                const RadosOptions& options);
  RadosLease(const RadosLease&) = delete;
  RadosLease& operator=(const RadosLease&) = delete;
  ~RadosLease();

  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  // As it is in the attribute: 16 hexadecimal digits, so that texts compare as numbers do.
  [[nodiscard]] const std::string& epoch_text() const { return epoch_text_; }
  // The last owner has left nothing over.
  [[nodiscard]] bool was_closed() const { return was_closed_; }
  // Stops renewing it, and gives it back; `clean`: nothing is left over.
  void close(bool clean);

 private:
  RadosLease(RadosPool& pool, const RadosOptions& options);
  [[nodiscard]] int lock(uint8_t flags);
  [[nodiscard]] Result<void> raise_epoch();
  [[nodiscard]] Result<void> fence();
  [[nodiscard]] std::string owner();
  void renew();

  RadosPool& pool_;
  const RadosOptions options_;
  std::string cookie_;
  uint64_t epoch_ = 0;
  std::string epoch_text_;
  bool was_closed_ = false;
  bool held_ = false;

  Mutex mutex_;
  Condition ending_;
  bool end_ VERBENA_GUARDED_BY(mutex_) = false;
  std::thread renewing_;
};

}  // namespace verbena::backend
