// SPDX-License-Identifier: Apache-2.0
#include "medium/nvdimm_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/file_backend.h"
#include "medium/file_writer.h"
#include "medium/mapped_guard.h"
#include "medium/pages.h"
#include "medium/pmem_mapping.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class NvdimmBackend final : public FileBackend {
 public:
  NvdimmBackend(const NvdimmOptions& options, std::unique_ptr<BlockFiles> files,
                std::unique_ptr<PmemReservation> addresses, std::unique_ptr<MappedGuard> guard)
      : FileBackend(std::move(files)),
        options_(options),
        addresses_(std::move(addresses)),
        guard_(std::move(guard)) {}
  ~NvdimmBackend() override {
    for (const auto& mapping : mappings_) {
      if (mapping && options_.registrar != nullptr) {
        options_.registrar->remove(mapping->memory(), mapping->bytes());
      }
    }
  }

  // Maps all files there are.
  [[nodiscard]] Result<void> map_existing() {
    for (uint32_t index = 0; index < files().count(); ++index) {
      if (auto mapped = map(index); !mapped) return mapped;
    }
    return {};
  }

  [[nodiscard]] Properties properties() const override {
    const bool known = first_mapped_.load(std::memory_order_acquire);
    const bool direct = known && mappings_[0]->direct();
    return {.name = !known   ? "nvdimm"
                    : direct ? "nvdimm (cache lines)"
                             : "nvdimm (msync)",
            .persistent = true,
            .device_target = direct || options_.built_in_device};
  }

  void flush(const uint8_t* memory, size_t bytes) override {
    const auto offset = static_cast<uint64_t>(memory - addresses_->base());
    const uint32_t index = files().index_of(static_cast<uint32_t>(offset / block_bytes()));
    const PmemMapping& mapping = *mappings_.at(index);
    if (mapping.direct() && !guard_->lost(memory, bytes)) {
      mapping.persist(memory, bytes);
    } else {
      queue_.add(offset, offset + bytes);
    }
  }

  // A store to it makes a page dirty, whatever is stored.
  void rewrite(uint8_t* memory, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kPage) {
      volatile uint8_t* const byte = memory + at;
      *byte = *byte;
    }
    flush(memory, bytes);
  }

  [[nodiscard]] bool unreadable(const uint8_t* memory, size_t bytes) override {
    return guard_->lost(memory, bytes);
  }

 private:
  [[nodiscard]] Result<uint8_t*> attach(uint32_t position, bool /*claimed*/) override
      VERBENA_REQUIRES(mutex_) {
    if (auto mapped = map(files().index_of(position)); !mapped) return fail(mapped.error());
    return addresses_->base() + position * block_bytes();
  }

  // What could not be read is replaced page by page, and these pages are known.
  [[nodiscard]] bool may_remove(uint32_t index) override
      VERBENA_REQUIRES(files_mutex_, fence_mutex_, mutex_) {
    const auto& mapping = mappings_.at(index);
    return !mapping || !guard_->lost(mapping->memory(), mapping->bytes());
  }
  // First the registration goes, then what is registered.
  void detach(uint32_t index) override VERBENA_REQUIRES(files_mutex_) {
    const auto& mapping = mappings_.at(index);
    if (mapping && options_.registrar != nullptr) {
      options_.registrar->remove(mapping->memory(), mapping->bytes());
    }
    mappings_.at(index).reset();
  }

  [[nodiscard]] Result<void> write_out(std::span<const FilePiece> pieces) override
      VERBENA_REQUIRES(fence_mutex_) {
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      const auto next = std::find_if(
          piece, pieces.end(), [&](const FilePiece& other) { return other.file != piece->file; });
      auto replaced = write_replaced({piece, next});
      if (!replaced) return fail(replaced.error());
      // Each msync waits for the disk's cache; several cost more than syncing all of the file once.
      auto synced = next - piece == 1 && !*replaced ? sync_range(*piece) : sync_file(piece->file);
      if (!synced) return synced;
      piece = next;
    }
    return {};
  }

  // Maps this file if it is not. One that could not be is tried again for the next block.
  [[nodiscard]] Result<void> map(uint32_t index) {
    if (mappings_.at(index)) return {};
    const BlockFile& file = files().file(index);
    auto mapping = PmemMapping::make(*addresses_, file.first * block_bytes(), file.fd.get(),
                                     file.blocks * block_bytes(), options_.files.read_only);
    if (!mapping) {
      mapping.error().what += " (" + files().path_of(file) + ")";
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

  // Pages that could not be read are not mapped any more: what was written there goes to the file
  // by a call. Whether there were any.
  [[nodiscard]] Result<bool> write_replaced(std::span<const FilePiece> pieces) {
    if (!guard_->any()) return false;
    bool any = false;
    for (const FilePiece& piece : pieces) {
      for (uint64_t at = piece.begin; at < piece.end;) {
        const uint64_t end =
            std::min<uint64_t>(piece.end, (at / guard_->page_bytes() + 1) * guard_->page_bytes());
        if (guard_->lost(addresses_->base() + at, end - at)) {
          any = true;
          if (auto wrote = write_piece(piece.file, at, end); !wrote) return fail(wrote.error());
        }
        at = end;
      }
    }
    return any;
  }
  [[nodiscard]] Result<void> write_piece(uint32_t index, uint64_t begin, uint64_t end) {
    const BlockFile& file = files().file(index);
    const uint64_t offset = begin - file.first * uint64_t{block_bytes()};
    struct stat facts{};
    if (::fstat(file.fd.get(), &facts) != 0) {
      return system_error(Code::kIo, "reading the status of " + files().path_of(file), errno);
    }
    // What somebody cut off does not come back, and the rest of it would be zeros.
    if (static_cast<uint64_t>(facts.st_size) < offset + (end - begin)) {
      return fail(Error{Code::kIo, files().path_of(file) + " was cut off while it was open"});
    }
    const std::array writes = {FileWrite{file.fd.get(), offset, addresses_->base() + begin,
                                         static_cast<size_t>(end - begin)}};
    if (const int error = writer_->write(writes); error != 0) {
      return system_error(Code::kIo, "writing to " + files().path_of(file), error);
    }
    return {};
  }

  [[nodiscard]] Result<void> sync_range(const FilePiece& piece) {
    const uint64_t begin = piece.begin / page_ * page_;
    if (::msync(addresses_->base() + begin, piece.end - begin, MS_SYNC) != 0) {
      return system_error(Code::kIo, "syncing " + files().path_of(files().file(piece.file)), errno);
    }
    return {};
  }
  [[nodiscard]] Result<void> sync_file(uint32_t index) {
    const BlockFile& file = files().file(index);
    if (::fdatasync(file.fd.get()) != 0) {
      return system_error(Code::kIo, "syncing " + files().path_of(file), errno);
    }
    return {};
  }

  const NvdimmOptions options_;
  const uint64_t page_ = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::unique_ptr<PmemReservation> addresses_;
  const std::unique_ptr<MappedGuard> guard_;  // of all these addresses
  const std::unique_ptr<FileWriter> writer_ = make_plain_writer();
  // A mapping is there before a block of it is handed out, and as long as one is.
  std::array<std::unique_ptr<PmemMapping>, BlockFiles::kMaxFiles> mappings_;
  std::atomic<bool> first_mapped_ = false;  // releases mappings_[0]
};

}  // namespace

Result<std::unique_ptr<Backend>> open_nvdimm_backend(const NvdimmOptions& options) {
  auto files = BlockFiles::open(options.files);
  if (!files) return fail(files.error());
  auto addresses = PmemReservation::make(options.files.block_bytes * (*files)->capacity());
  if (!addresses) return fail(addresses.error());
  auto guard =
      MappedGuard::make((*addresses)->base(), options.files.block_bytes * (*files)->capacity(),
                        options.files.read_only);
  if (!guard) return fail(guard.error());
  auto backend = std::make_unique<NvdimmBackend>(options, *std::move(files), *std::move(addresses),
                                                 *std::move(guard));
  if (auto mapped = backend->map_existing(); !mapped) return fail(mapped.error());
  return backend;
}

}  // namespace verbena::medium
