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
#include <unistd.h>

#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/file_backend.h"
#include "medium/pmem_mapping.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class NvdimmBackend final : public FileBackend {
 public:
  NvdimmBackend(const NvdimmOptions& options, std::unique_ptr<BlockFiles> files,
                std::unique_ptr<PmemReservation> addresses)
      : FileBackend(std::move(files)), options_(options), addresses_(std::move(addresses)) {}
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
    if (mapping.direct()) {
      mapping.persist(memory, bytes);
    } else {
      queue_.add(offset, offset + bytes);
    }
  }

 private:
  [[nodiscard]] Result<uint8_t*> attach(uint32_t position, bool /*claimed*/) override {
    if (auto mapped = map(files().index_of(position)); !mapped) return fail(mapped.error());
    return addresses_->base() + position * block_bytes();
  }

  [[nodiscard]] Result<void> write_out(std::span<const FilePiece> pieces) override {
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      const auto next = std::find_if(
          piece, pieces.end(), [&](const FilePiece& other) { return other.file != piece->file; });
      // Each msync waits for the disk's cache; several cost more than syncing all of the file once.
      auto synced = next - piece == 1 ? sync_range(*piece) : sync_file(piece->file);
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
  // A mapping is there before a block of it is handed out, and stays.
  std::array<std::unique_ptr<PmemMapping>, BlockFiles::kMaxFiles> mappings_;
  std::atomic<bool> first_mapped_ = false;  // releases mappings_[0]
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
