// SPDX-License-Identifier: Apache-2.0
#include "store/directory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <sys/statvfs.h>

#include "medium/balance_backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"
#include "store/folder_lock.h"
#include "store/folder_names.h"
#include "store/folder_shape.h"
#include "store/medium_error.h"

namespace verbena::store {
namespace {

namespace fs = std::filesystem;

// How many blocks a medium may have: what it was given, or what the disk has room for.
uint32_t capacity_of(const std::string& folder, const DirectoryOptions& options, size_t media,
                     uint64_t block_bytes) {
  constexpr uint64_t kMost = 4'194'304;
  if (options.capacity_bytes > 0) {
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(options.capacity_bytes / block_bytes / media, 2, kMost / media));
  }
  struct statvfs disk{};
  uint64_t bytes = 0;
  if (statvfs(folder.c_str(), &disk) == 0) bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  for (const std::string& name : names_in(folder).value_or(std::vector<std::string>{})) {
    std::error_code error;
    const uint64_t size = fs::file_size(fs::path(folder) / name, error);
    if (name.starts_with("blocks.") && !error) bytes += size;
  }
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / block_bytes, 2, kMost / media));
}

// `damaged`: the shape of a store of which files are missing or were cut off; it is only read.
Result<std::unique_ptr<medium::Backend>> open_backend(const std::vector<std::string>& folders,
                                                      const DirectoryOptions& options,
                                                      uint32_t chunks_per_block,
                                                      const FolderShape* damaged = nullptr) {
  std::vector<std::unique_ptr<medium::Backend>> media;
  for (const std::string& folder : folders) {
    medium::FileOptions files;
    files.folder = folder;
    files.block_bytes = size_t{chunks_per_block} * kChunkBytes;
    files.capacity = capacity_of(folder, options, folders.size(), files.block_bytes);
    files.medium = static_cast<uint32_t>(media.size());
    files.media = static_cast<uint32_t>(folders.size());
    files.read_only = options.store.read_only;
    if (damaged != nullptr) {
      files.position_of = [damaged, medium = files.medium](int fd) {
        return first_position(*damaged, medium, fd);
      };
    }
    medium::NvdimmOptions mapped;
    mapped.files = files;
    mapped.registrar = options.registrar;
    medium::StagedOptions staged;
    staged.files = files;
    staged.memory.registrar = options.registrar;
    const auto open = [&] {
      mapped.files.capacity = staged.files.capacity = files.capacity;
      // What is not in a file cannot be mapped.
      return options.kind == Kind::kStaged || damaged != nullptr
                 ? medium::open_staged_backend(staged)
                 : medium::open_nvdimm_backend(mapped);
    };
    auto opened = open();
    // Addresses for a whole disk may be more than the process can have; less will do.
    while (!opened && opened.error().code == medium::Code::kNoMemory &&
           options.capacity_bytes == 0 && files.capacity > 64) {
      files.capacity /= 2;
      opened = open();
    }
    if (!opened) return fail(from_medium(opened.error()));
    media.push_back(std::move(*opened));
  }
  if (media.size() == 1) return std::move(media.front());
  return medium::make_balance_backend(std::move(media));
}

// As the files are: those of a store that is not whole can be read as far as they are there.
Result<std::unique_ptr<medium::Backend>> open_backend(const FolderShape& shape,
                                                      const DirectoryOptions& options) {
  if (shape.files.empty()) return open_backend(shape.folders, options, shape.chunks_per_block);
  if (options.store.read_only) {
    return open_backend(shape.folders, options, shape.chunks_per_block, &shape);
  }
  const Damage& first = shape.files.front();
  return fail(Error{Code::kDamaged,
                    fmt::format("{} is {}: the store can only be read; `verbena salvage` builds a "
                                "new one from what is there",
                                first.field, first.actual),
                    first});
}

Result<std::vector<FolderLock>> lock_all(const std::vector<std::string>& folders,
                                         FolderLock::Mode mode) {
  std::vector<FolderLock> locks;
  for (const std::string& folder : folders) {
    auto lock = FolderLock::take(folder, mode);
    if (!lock) return fail(lock.error());
    locks.push_back(std::move(*lock));
  }
  return locks;
}

// At least one, and none twice.
Result<void> check_folders(const std::vector<std::string>& folders) {
  if (folders.empty()) return fail(Error{Code::kInvalid, "no directory given for the store", {}});
  for (size_t i = 0; i < folders.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      std::error_code ignored;
      if (folders[i] == folders[j] || fs::equivalent(folders[i], folders[j], ignored)) {
        return fail(
            Error{Code::kInvalid, fmt::format("directory {} is given twice", folders[i]), {}});
      }
    }
  }
  return {};
}

}  // namespace

struct DirectoryStore::Parts {
  std::vector<FolderLock> locks;  // released after the store is closed
  std::unique_ptr<Store> store;
};

DirectoryStore::DirectoryStore() : parts_(std::make_unique<Parts>()) {}
DirectoryStore::DirectoryStore(DirectoryStore&&) noexcept = default;
DirectoryStore& DirectoryStore::operator=(DirectoryStore&&) noexcept = default;
DirectoryStore::~DirectoryStore() = default;
Store& DirectoryStore::store() { return *parts_->store; }

Result<void> DirectoryStore::announce(const std::string& server) {
  for (FolderLock& lock : parts_->locks) {
    if (auto done = lock.announce(server); !done) return done;
  }
  return {};
}

Result<DirectoryStore> DirectoryStore::create(const std::vector<std::string>& folders,
                                              const DirectoryOptions& options) {
  if (const auto fine = check_folders(folders); !fine) return fail(fine.error());
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return fail(Error{Code::kIo, fmt::format("{}: {}", folder, error.message()), {}});
    }
  }
  DirectoryStore made;
  auto locks = lock_all(folders, FolderLock::Mode::kWrite);
  if (!locks) return fail(locks.error());
  made.parts_->locks = std::move(*locks);
  for (const std::string& folder : folders) {
    const auto holds = holds_store(folder);
    if (!holds) return fail(holds.error());
    if (*holds && !unfinished(folders)) {
      return fail(Error{Code::kExists, fmt::format("{} already contains a store", folder), {}});
    }
  }
  auto backend = open_backend(folders, options, options.chunks_per_block);
  if (!backend) return fail(backend.error());
  Options store = options.store;
  store.media = static_cast<uint32_t>(folders.size());
  auto opened = Store::create(std::move(*backend), store);
  if (!opened) return fail(opened.error());
  made.parts_->store = std::move(*opened);
  return made;
}

Result<DirectoryStore> DirectoryStore::open(const std::vector<std::string>& folders,
                                            const DirectoryOptions& options, OpenReport* report) {
  if (const auto fine = check_folders(folders); !fine) return fail(fine.error());
  for (const std::string& folder : folders) {
    const auto holds = holds_store(folder);
    if (!holds) return fail(holds.error());
    if (!*holds) {
      return fail(Error{Code::kNoStore, fmt::format("no store in {}", folder), {}});
    }
  }
  DirectoryStore made;
  auto locks = lock_all(
      folders, options.store.read_only ? FolderLock::Mode::kRead : FolderLock::Mode::kWrite);
  if (!locks) return fail(locks.error());
  made.parts_->locks = std::move(*locks);
  const auto shape = find_shape(folders);
  if (!shape) return fail(shape.error());
  auto backend = open_backend(*shape, options);
  if (!backend) return fail(backend.error());
  auto opened = Store::open(std::move(*backend), options.store, report);
  if (!opened) return fail(opened.error());
  if (report != nullptr) report->files = shape->files;
  made.parts_->store = std::move(*opened);
  return made;
}

namespace {

// A look at a store that others may be using: no lock, nothing written.
Result<ScrubReport> scrub_once(const std::vector<std::string>& folders, const Progress& progress) {
  const auto shape = find_shape(folders);
  if (!shape) return fail(shape.error());
  DirectoryOptions options;
  options.store.read_only = true;
  auto backend = open_backend(*shape, options);
  if (!backend) return fail(backend.error());
  OpenReport report;
  auto store = Store::open(std::move(*backend), options.store, &report);
  if (!store) return fail(store.error());
  auto found = (*store)->scrub(progress);
  if (found) found->files = shape->files;
  return found;
}

bool same(const Damage& a, const Damage& b) {
  return a.object == b.object && a.offset == b.offset && a.chunk == b.chunk && a.field == b.field &&
         a.expected == b.expected && a.actual == b.actual;
}

}  // namespace

Result<ScrubReport> scrub(const std::vector<std::string>& folders, const Progress& progress) {
  if (const auto fine = check_folders(folders); !fine) return fail(fine.error());
  // Of a store in use, what was freed and written again meanwhile looks damaged, once: who wrote it
  // may be gone by now. What is damaged looks so again, to who reads the log anew.
  constexpr int kLooks = 6;
  auto report = scrub_once(folders, progress);
  bool confirmed = false;
  for (int i = 1; i < kLooks && !confirmed && !(report && report->damaged == 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10) * (1 << 2 * (i - 1)));
    auto again = scrub_once(folders, progress);
    if (again && report) {
      const auto gone = std::erase_if(again->damage, [&](const Damage& damage) {
        return std::ranges::none_of(report->damage,
                                    [&](const Damage& other) { return same(damage, other); });
      });
      again->damaged -= std::min<uint64_t>(gone, again->damaged);
      confirmed = gone == 0;
    } else {
      confirmed = !again && !report && again.error().what == report.error().what;
    }
    report = std::move(again);
  }
  return report;
}

}  // namespace verbena::store
