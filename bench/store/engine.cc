// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

#include "medium/malloc_backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"

namespace verbena::bench {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{8} << 20;

medium::Result<std::unique_ptr<medium::Backend>> make_backend(Medium medium,
                                                              const std::string& folder,
                                                              uint64_t bytes) {
  if (medium == Medium::kMalloc) {
    medium::MallocOptions options;
    options.capacity = static_cast<uint32_t>(bytes / kBlockBytes);
    options.memory.prefault = true;
    return medium::make_malloc_backend(options);
  }
  medium::FileOptions files;
  files.folder = folder;
  files.capacity = static_cast<uint32_t>(bytes / kBlockBytes) + 2;
  if (medium == Medium::kStaged) {
    medium::StagedOptions options;
    options.files = files;
    options.memory.prefault = true;
    return medium::open_staged_backend(options);
  }
  medium::NvdimmOptions options;
  options.files = files;
  return medium::open_nvdimm_backend(options);
}

}  // namespace

void give_up(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  std::exit(1);
}

const char* name_of(Medium medium) {
  switch (medium) {
    case Medium::kMalloc: return "malloc, no log";
    case Medium::kShared: return "files in /dev/shm (msync), log, flushed every 32 MiB";
    case Medium::kFiles:  return "files on disk (msync), log, flushed every 32 MiB";
    case Medium::kStaged: break;
  }
  return "staged before files on disk (io_uring), log, flushed every 32 MiB";
}

void must(const store::Result<void>& result) {
  if (!result) give_up(result.error().what);
}

std::unique_ptr<store::Store> make_store(Medium medium, const std::string& folder, uint64_t bytes,
                                         bool checksums) {
  auto backend = make_backend(medium, folder, bytes);
  if (!backend) give_up(backend.error().what);
  store::Options options;
  options.checksums = checksums;
  SeededRandom random(1);
  auto made = store::Store::create(std::move(*backend), options, random);
  if (!made) give_up(made.error().what);
  must((*made)->create_object(kObject));
  // Twice, so that every chunk was touched and half of them are free.
  const std::vector<uint8_t> piece(uint64_t{1} << 20, 0x5a);
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t at = 0; at + piece.size() <= bytes / 2; at += piece.size()) {
      must((*made)->write(kObject, at, piece));
    }
  }
  must((*made)->flush());
  must((*made)->flush());
  return std::move(*made);
}

uint64_t filled(const store::Store& store) { return store.stat(kObject)->size; }

Arena::Arena(uint64_t bytes)
    : memory_(static_cast<uint8_t*>(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
      bytes_(bytes) {
  if (memory_ == MAP_FAILED) give_up("no memory for the arena");
  madvise(memory_, bytes, MADV_HUGEPAGE);
  std::memset(memory_, 1, bytes);
}

Arena::~Arena() { munmap(memory_, bytes_); }

}  // namespace verbena::bench
