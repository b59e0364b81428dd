// SPDX-License-Identifier: Apache-2.0
#include "medium/staged_backend.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/check.h"
#include "base/mutex.h"
#include "medium/anonymous_memory.h"
#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/file_backend.h"
#include "medium/file_writer.h"
#include "medium/granules.h"
#include "medium/pages.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class StagedBackend final : public FileBackend {
 public:
  StagedBackend(std::unique_ptr<BlockFiles> files, std::unique_ptr<AnonymousMemory> memory,
                std::unique_ptr<FileWriter> writer)
      : FileBackend(std::move(files)),
        granules_(block_bytes(), capacity()),
        memory_(std::move(memory)),
        writer_(std::move(writer)) {}

  [[nodiscard]] Properties properties() const override {
    return {.name = std::string("staged (") + writer_->name() + ")",
            .persistent = true,
            .loaded_on_demand = true,
            .device_target = true};
  }

  // A fence may be writing from the memory, or be about to. Then the block goes when it is done:
  // nobody waits for the disk here.
  void release(Block block) override {
    {
      const MutexLock lock(mutex_);
      released_.push_back(block.position);
    }
    try_settle();
  }

  [[nodiscard]] Result<void> load(const uint8_t* memory, size_t bytes) override {
    const uint64_t offset = memory_->offset_of(memory);
    const auto position = static_cast<uint32_t>(offset / block_bytes());
    return granules_.load(
        position, offset % block_bytes(), bytes,
        [&](size_t begin, size_t length) { return read_block(position, begin, length); });
  }

  [[nodiscard]] bool unreadable(const uint8_t* memory, size_t bytes) override {
    const MutexLock lock(lost_mutex_);
    const uint64_t begin = memory_->offset_of(memory);
    const auto found = lost_.lower_bound(begin / kPage);
    return found != lost_.end() && *found * kPage < begin + bytes;
  }

  // Whole pages, as O_DIRECT wants them: the rest of them is loaded, for it was written to.
  void flush(const uint8_t* memory, size_t bytes) override {
    VERBENA_CHECK(!files().options().read_only);
    const uint64_t begin = memory_->offset_of(memory);
    queue_.add(begin / kPage * kPage, (begin + bytes + kPage - 1) / kPage * kPage);
  }

 private:
  // Page by page where it cannot be read at once: one bad sector is one bad page.
  [[nodiscard]] Result<void> read_block(uint32_t position, size_t begin, size_t length) {
    uint8_t* const memory = memory_->address_of(position) + begin;
    if (files().read(position, begin, {memory, length})) return {};
    for (size_t at = 0; at < length; at += kPage) {
      if (files().read(position, begin + at, {memory + at, kPage})) continue;
      std::memset(memory + at, 0, kPage);
      const MutexLock lock(lost_mutex_);
      lost_.insert(memory_->offset_of(memory + at) / kPage);
    }
    return {};
  }

  [[nodiscard]] Result<uint8_t*> attach(uint32_t position, bool claimed) override
      VERBENA_REQUIRES(mutex_) {
    // Releasing it must not fail for want of memory.
    if (++held_ > released_.capacity()) released_.reserve(2 * held_);
    auto memory = memory_->take(position);
    if (!memory) {
      --held_;
      return memory;
    }
    granules_.set_block(position, !claimed);
    const MutexLock lock(lost_mutex_);
    const uint64_t pages = block_bytes() / kPage;
    lost_.erase(lost_.lower_bound(position * pages), lost_.lower_bound((position + 1) * pages));
    return memory;
  }

  void settle_released() noexcept override VERBENA_REQUIRES(fence_mutex_) {
    const MutexLock lock(mutex_);
    for (; !released_.empty(); released_.pop_back()) {
      const uint32_t position = released_.back();
      const uint64_t begin = uint64_t{position} * block_bytes();
      if (!queue_.drop(begin, begin + block_bytes())) return;  // once more later
      memory_->give(position);
      give(position);
      --held_;
    }
  }

  [[nodiscard]] Result<void> write_out(std::span<const FilePiece> pieces) override
      VERBENA_REQUIRES(fence_mutex_) {
    std::vector<FileWrite> writes;
    writes.reserve(pieces.size());
    for (const FilePiece& piece : pieces) {
      const BlockFile& file = files().file(piece.file);
      writes.push_back({.fd = file.direct.valid() ? file.direct.get() : file.fd.get(),
                        .offset = piece.begin - file.first * uint64_t{block_bytes()},
                        .memory = memory_->address_of(0) + piece.begin,
                        .bytes = piece.end - piece.begin});
    }
    int error = writer_->write(writes);
    if (error == EINVAL) {  // some file systems refuse O_DIRECT only here
      for (size_t i = 0; i < pieces.size(); ++i)
        writes[i].fd = files().file(pieces[i].file).fd.get();
      error = writer_->write(writes);
    }
    if (error != 0) return system_error(Code::kIo, "writing to " + files().options().folder, error);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && pieces[i].file == pieces[i - 1].file) continue;
      const BlockFile& file = files().file(pieces[i].file);
      if (::fdatasync(file.fd.get()) != 0) {
        return system_error(Code::kIo, "syncing " + files().path_of(file), errno);
      }
    }
    return {};
  }

  Granules granules_;
  // Blocks that are held, or released and not settled.
  size_t held_ VERBENA_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> released_ VERBENA_GUARDED_BY(mutex_);  // has room for all of them
  const std::unique_ptr<AnonymousMemory> memory_;
  const std::unique_ptr<FileWriter> writer_;
  Mutex lost_mutex_;
  // Pages that could not be read, counted from block 0.
  std::set<uint64_t> lost_ VERBENA_GUARDED_BY(lost_mutex_);
};

}  // namespace

Result<std::unique_ptr<Backend>> open_staged_backend(const StagedOptions& options) {
  auto files = BlockFiles::open(options.files);
  if (!files) return fail(files.error());
  auto memory =
      AnonymousMemory::reserve(options.files.block_bytes, (*files)->capacity(), options.memory);
  if (!memory) return fail(memory.error());
  std::unique_ptr<FileWriter> writer = options.io_uring ? make_uring_writer() : nullptr;
  if (!writer) writer = make_plain_writer();
  return std::make_unique<StagedBackend>(*std::move(files), *std::move(memory), std::move(writer));
}

}  // namespace verbena::medium
