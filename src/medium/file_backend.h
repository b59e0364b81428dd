// SPDX-License-Identifier: Apache-2.0
// The common part of media on files: which blocks are held, which ranges wait for a fence, and one
// fence at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

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
  // otherwise anything. mutex_ is held.
  [[nodiscard]] virtual Result<uint8_t*> attach(uint32_t position, bool claimed) = 0;
  // Makes these durable, which are in order; fence_mutex_ is held.
  [[nodiscard]] virtual Result<void> write_out(std::span<const FilePiece> pieces) = 0;

  // Before this file, of which nobody holds a block, is removed; with both mutexes. False: it must
  // stay.
  [[nodiscard]] virtual bool detach(uint32_t index) {
    static_cast<void>(index);
    return true;
  }

  [[nodiscard]] const BlockFiles& files() const { return *files_; }

  std::mutex mutex_;        // of positions_, of making files, and of attach()
  std::mutex fence_mutex_;  // before mutex_, where both are taken
  FlushQueue queue_;        // in bytes from the beginning of block 0

 private:
  [[nodiscard]] Result<Block> take(uint32_t position, bool claimed);
  [[nodiscard]] bool any_held(const BlockFile& file) const;
  // With fence_mutex_.
  [[nodiscard]] Result<void> write_queue();

  const std::unique_ptr<BlockFiles> files_;
  Positions positions_;
  std::optional<Error> failure_;  // of a fence: all later ones fail, too
};

}  // namespace verbena::medium
