// SPDX-License-Identifier: Apache-2.0
#include "medium/staged_backend.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/check.h"
#include "medium/anonymous_memory.h"
#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/file_writer.h"
#include "medium/flush_queue.h"
#include "medium/granules.h"
#include "medium/pages.h"
#include "medium/positions.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class StagedBackend final : public Backend {
 public:
  StagedBackend(const StagedOptions& options, std::unique_ptr<BlockFiles> files,
                std::unique_ptr<AnonymousMemory> memory, std::unique_ptr<FileWriter> writer)
      : options_(options),
        files_(std::move(files)),
        granules_(options.files.block_bytes, files_->capacity()),
        positions_(files_->capacity()),
        memory_(std::move(memory)),
        writer_(std::move(writer)) {}

  [[nodiscard]] size_t block_bytes() const override { return options_.files.block_bytes; }
  [[nodiscard]] Properties properties() const override {
    return {.name = std::string("staged (") + writer_->name() + ")",
            .persistent = true,
            .loaded_on_demand = true,
            .device_target = true};
  }
  [[nodiscard]] uint32_t capacity() const override { return files_->capacity(); }
  [[nodiscard]] uint32_t existing() const override { return files_->existing(); }
  [[nodiscard]] bool reads_past_cache() const override { return files_->past_cache(); }

  [[nodiscard]] Result<Block> allocate() override {
    const std::lock_guard lock(mutex_);
    if (options_.files.read_only) return read_only();
    const std::optional<uint32_t> position = positions_.lowest_free();
    if (!position) {
      return fail(Error{Code::kFull, "all " + std::to_string(capacity()) + " blocks of " +
                                         options_.files.folder + " are in use"});
    }
    return take(*position, true);
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    const std::lock_guard lock(mutex_);
    if (position >= capacity() || positions_.held(position)) {
      return fail(Error{Code::kBad, options_.files.folder + " has no free block " +
                                        std::to_string(position) + " of " +
                                        std::to_string(capacity())});
    }
    if (options_.files.read_only && position >= existing()) return read_only();
    return take(position, false);
  }
  void release(Block block) override {
    {
      // A fence may be writing from the memory, or be about to.
      const std::lock_guard fencing(fence_mutex_);
      const uint64_t begin = memory_->offset_of(block.memory);
      queue_.drop(begin, begin + block_bytes());
    }
    const std::lock_guard lock(mutex_);
    positions_.give(block.position);
    memory_->give(block.position);
  }

  [[nodiscard]] Result<void> load(const uint8_t* memory, size_t bytes) override {
    const uint64_t offset = memory_->offset_of(memory);
    const auto position = static_cast<uint32_t>(offset / block_bytes());
    return granules_.load(
        position, offset % block_bytes(), bytes, [&](size_t begin, size_t length) {
          return files_->read(position, begin, {memory_->address_of(position) + begin, length});
        });
  }

  // Whole pages, as O_DIRECT wants them: the rest of them is loaded, for it was written to.
  void flush(const uint8_t* memory, size_t bytes) override {
    VERBENA_CHECK(!options_.files.read_only);
    const uint64_t begin = memory_->offset_of(memory);
    queue_.add(begin / kPage * kPage, (begin + bytes + kPage - 1) / kPage * kPage);
  }

  // One at a time: a second one must not return before the first has written what it took.
  [[nodiscard]] Result<void> fence() override {
    const std::lock_guard lock(fence_mutex_);
    if (failure_) return fail(*failure_);
    auto done = write_out(files_->split(queue_.take()));
    if (!done) failure_ = done.error();
    return done;
  }

  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    return files_->read(position, offset, out);
  }

 private:
  [[nodiscard]] std::unexpected<Error> read_only() const {
    return fail(Error{Code::kBad, options_.files.folder + " is opened for reading only"});
  }

  [[nodiscard]] Result<Block> take(uint32_t position, bool loaded) {
    if (auto grown = files_->grow_to(position); !grown) return fail(grown.error());
    auto memory = memory_->take(position);
    if (!memory) return fail(memory.error());
    positions_.take(position);
    granules_.set_block(position, loaded);
    return Block{position, *memory};
  }

  [[nodiscard]] Result<void> write_out(std::span<const FilePiece> pieces) {
    std::vector<FileWrite> writes;
    writes.reserve(pieces.size());
    for (const FilePiece& piece : pieces) {
      const BlockFile& file = files_->file(piece.file);
      writes.push_back({.fd = file.direct.valid() ? file.direct.get() : file.fd.get(),
                        .offset = piece.begin - file.first * uint64_t{block_bytes()},
                        .memory = memory_->address_of(0) + piece.begin,
                        .bytes = piece.end - piece.begin});
    }
    int error = writer_->write(writes);
    if (error == EINVAL) {  // some file systems refuse O_DIRECT only here
      for (size_t i = 0; i < pieces.size(); ++i)
        writes[i].fd = files_->file(pieces[i].file).fd.get();
      error = writer_->write(writes);
    }
    if (error != 0) return system_error(Code::kIo, "writing to " + options_.files.folder, error);
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && pieces[i].file == pieces[i - 1].file) continue;
      const BlockFile& file = files_->file(pieces[i].file);
      if (::fdatasync(file.fd.get()) != 0) {
        return system_error(Code::kIo, "syncing " + files_->path_of(file), errno);
      }
    }
    return {};
  }

  const StagedOptions options_;
  const std::unique_ptr<BlockFiles> files_;
  Granules granules_;

  std::mutex mutex_;  // of positions_, and of making files and memory
  Positions positions_;
  const std::unique_ptr<AnonymousMemory> memory_;

  FlushQueue queue_;
  std::mutex fence_mutex_;  // never taken with mutex_
  const std::unique_ptr<FileWriter> writer_;
  std::optional<Error> failure_;  // of a fence: all later ones fail, too
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
  return std::make_unique<StagedBackend>(options, *std::move(files), *std::move(memory),
                                         std::move(writer));
}

}  // namespace verbena::medium
