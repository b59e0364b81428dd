// SPDX-License-Identifier: Apache-2.0
// The common part of media on files: which blocks are held, which ranges wait for a fence, and one
// fence at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/flush_queue.h"
#include "medium/positions.h"

namespace verbena::medium {

class FileBackend : public Backend {
 public:
  [[nodiscard]] size_t block_bytes() const final { return files_->options().block_bytes; }
  [[nodiscard]] uint32_t capacity() const final { return files_->capacity(); }
  [[nodiscard]] uint32_t existing() const final { return files_->existing(); }
  [[nodiscard]] bool has(uint32_t position) const final { return files_->has(position); }
  [[nodiscard]] bool reads_past_cache() const final { return files_->past_cache(); }

  [[nodiscard]] Result<Block> allocate() final;
  [[nodiscard]] Result<Block> claim(uint32_t position) final;
  void release(Block block) override;
  // Whole files alone.
  [[nodiscard]] Result<uint32_t> trim() final;
  [[nodiscard]] uint32_t trimmed(uint32_t blocks) const final { return files_->end_of(blocks); }

  [[nodiscard]] Result<void> fence() final;
  [[nodiscard]] Result<void> fence_after_failure() final;
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) final {
    return files_->read(position, offset, out);
  }

 protected:
  explicit FileBackend(std::unique_ptr<BlockFiles> files);

  // Memory for a block whose file is there; its content is to be what the file holds if `claimed`,
  // otherwise anything.
  [[nodiscard]] virtual Result<uint8_t*> attach(uint32_t position, bool claimed)
      VERBENA_REQUIRES(mutex_) = 0;
  // Makes these durable, which are in order.
  [[nodiscard]] virtual Result<void> write_out(std::span<const FilePiece> pieces)
      VERBENA_REQUIRES(fence_mutex_) = 0;

  // Blocks that were released while a fence went on are free from here on.
  virtual void settle_released() noexcept VERBENA_REQUIRES(fence_mutex_) {}
  // The same, unless one goes on now.
  void try_settle();
  // A block nobody uses any more.
  void give(uint32_t position) VERBENA_REQUIRES(mutex_) { positions_.give(position); }

  // Whether this file, of which nobody holds a block, may be removed.
  [[nodiscard]] virtual bool may_remove(uint32_t index)
      VERBENA_REQUIRES(files_mutex_, fence_mutex_, mutex_) {
    static_cast<void>(index);
    return true;
  }
  // Nobody can get a block of this file any more, and it is about to be removed. With files_mutex_
  // alone, so that it may take its time.
  virtual void detach(uint32_t index) VERBENA_REQUIRES(files_mutex_) { static_cast<void>(index); }

  [[nodiscard]] const BlockFiles& files() const { return *files_; }

  // In this order, where several are taken. Whoever takes or gives blocks has mutex_ for a moment
  // alone; making and removing files waits for the disk.
  Mutex files_mutex_;  // of making and removing files
  Mutex fence_mutex_;  // one fence at a time
  Mutex mutex_;        // of positions_, and of attach()
  FlushQueue queue_;   // in bytes from the beginning of block 0

 private:
  // Of a file that is there.
  [[nodiscard]] Result<Block> take(uint32_t position, bool claimed) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> grow_to(uint32_t position);
  [[nodiscard]] std::optional<uint32_t> lowest_free();
  [[nodiscard]] bool any_held(const BlockFile& file) const VERBENA_REQUIRES(mutex_);
  // Takes the last file away from everybody; false: it must stay.
  [[nodiscard]] bool leave_last_file() VERBENA_REQUIRES(files_mutex_);
  [[nodiscard]] Result<void> write_queue() VERBENA_REQUIRES(fence_mutex_);

  const std::unique_ptr<BlockFiles> files_;
  Positions positions_ VERBENA_GUARDED_BY(mutex_);
  // Of a fence: all later ones fail, too.
  std::optional<Error> failure_ VERBENA_GUARDED_BY(fence_mutex_);
};

}  // namespace verbena::medium
