// SPDX-License-Identifier: Apache-2.0
#include "medium/nvdimm_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
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

#include <sys/mman.h>
#include <unistd.h>

#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/flush_queue.h"
#include "medium/pmem_mapping.h"
#include "medium/positions.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class NvdimmBackend final : public Backend {
 public:
  NvdimmBackend(const NvdimmOptions& options, std::unique_ptr<BlockFiles> files,
                std::unique_ptr<PmemReservation> addresses)
      : options_(options),
        files_(std::move(files)),
        addresses_(std::move(addresses)),
        positions_(files_->capacity()) {}
  ~NvdimmBackend() override {
    for (const auto& mapping : mappings_) {
      if (mapping && options_.registrar != nullptr) {
        options_.registrar->remove(mapping->memory(), mapping->bytes());
      }
    }
  }

  // Maps all files there are.
  [[nodiscard]] Result<void> map_existing() {
    for (uint32_t index = 0; index < files_->count(); ++index) {
      if (auto mapped = map(index); !mapped) return mapped;
    }
    return {};
  }

  [[nodiscard]] size_t block_bytes() const override { return options_.files.block_bytes; }
  [[nodiscard]] Properties properties() const override {
    const bool known = first_mapped_.load(std::memory_order_acquire);
    const bool direct = known && mappings_[0]->direct();
    return {.name = !known   ? "nvdimm"
                    : direct ? "nvdimm (cache lines)"
                             : "nvdimm (msync)",
            .persistent = true,
            .device_target = direct || options_.built_in_device};
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
    return take(*position);
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    const std::lock_guard lock(mutex_);
    if (position >= capacity() || positions_.held(position)) {
      return fail(Error{Code::kBad, options_.files.folder + " has no free block " +
                                        std::to_string(position) + " of " +
                                        std::to_string(capacity())});
    }
    if (options_.files.read_only && position >= existing()) return read_only();
    return take(position);
  }
  void release(Block block) override {
    const std::lock_guard lock(mutex_);
    positions_.give(block.position);
  }

  void flush(const uint8_t* memory, size_t bytes) override {
    const auto offset = static_cast<uint64_t>(memory - addresses_->base());
    const uint32_t index = files_->index_of(static_cast<uint32_t>(offset / block_bytes()));
    const PmemMapping& mapping = *mappings_.at(index);
    if (mapping.direct()) {
      mapping.persist(memory, bytes);
    } else {
      queue_.add(offset, offset + bytes);
    }
  }

  // One at a time: a second one must not return before the first has written what it took.
  [[nodiscard]] Result<void> fence() override {
    const std::lock_guard lock(fence_mutex_);
    if (failure_) return fail(*failure_);
    const std::vector<FilePiece> pieces = files_->split(queue_.take());
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      const auto next = std::find_if(
          piece, pieces.end(), [&](const FilePiece& other) { return other.file != piece->file; });
      // Each msync waits for the disk's cache; several cost more than syncing all of the file once.
      const auto synced = next - piece == 1 ? sync_range(*piece) : sync_file(piece->file);
      if (!synced) {
        failure_ = synced.error();
        return synced;
      }
      piece = next;
    }
    return {};
  }

  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    return files_->read(position, offset, out);
  }

 private:
  [[nodiscard]] std::unexpected<Error> read_only() const {
    return fail(Error{Code::kBad, options_.files.folder + " is opened for reading only"});
  }

  [[nodiscard]] Result<Block> take(uint32_t position) {
    if (auto grown = files_->grow_to(position); !grown) return fail(grown.error());
    if (auto mapped = map(files_->index_of(position)); !mapped) return fail(mapped.error());
    positions_.take(position);
    return Block{position, addresses_->base() + position * block_bytes()};
  }

  // Maps this file if it is not. One that could not be is tried again for the next block.
  [[nodiscard]] Result<void> map(uint32_t index) {
    if (mappings_.at(index)) return {};
    const BlockFile& file = files_->file(index);
    auto mapping = PmemMapping::make(*addresses_, file.first * block_bytes(), file.fd.get(),
                                     file.blocks * block_bytes(), options_.files.read_only);
    if (!mapping) {
      mapping.error().what += " (" + files_->path_of(file) + ")";
      return fail(mapping.error());
    }
    if (options_.registrar != nullptr) {
      auto added = options_.registrar->add((*mapping)->memory(), (*mapping)->bytes());
      if (!added) return added;
    }
    mappings_.at(index) = *std::move(mapping);
    if (index == 0) first_mapped_.store(true, std::memory_order_release);
    return {};
  }

  [[nodiscard]] Result<void> sync_range(const FilePiece& piece) {
    const uint64_t begin = piece.begin / page_ * page_;
    if (::msync(addresses_->base() + begin, piece.end - begin, MS_SYNC) != 0) {
      return system_error(Code::kIo, "syncing " + files_->path_of(files_->file(piece.file)), errno);
    }
    return {};
  }
  [[nodiscard]] Result<void> sync_file(uint32_t index) {
    const BlockFile& file = files_->file(index);
    if (::fdatasync(file.fd.get()) != 0) {
      return system_error(Code::kIo, "syncing " + files_->path_of(file), errno);
    }
    return {};
  }

  const NvdimmOptions options_;
  const uint64_t page_ = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::unique_ptr<BlockFiles> files_;
  const std::unique_ptr<PmemReservation> addresses_;

  std::mutex mutex_;  // of positions_, and of making files and mappings_
  Positions positions_;
  // A mapping is there before a block of it is handed out, and stays.
  std::array<std::unique_ptr<PmemMapping>, BlockFiles::kMaxFiles> mappings_;
  std::atomic<bool> first_mapped_ = false;  // releases mappings_[0]

  FlushQueue queue_;
  std::mutex fence_mutex_;
  std::optional<Error> failure_;  // of a fence: all later ones fail, too
};

}  // namespace

Result<std::unique_ptr<Backend>> open_nvdimm_backend(const NvdimmOptions& options) {
  auto files = BlockFiles::open(options.files);
  if (!files) return fail(files.error());
  auto addresses = PmemReservation::make(options.files.block_bytes * (*files)->capacity());
  if (!addresses) return fail(addresses.error());
  auto backend = std::make_unique<NvdimmBackend>(options, *std::move(files), *std::move(addresses));
  if (auto mapped = backend->map_existing(); !mapped) return fail(mapped.error());
  return backend;
}

}  // namespace verbena::medium
