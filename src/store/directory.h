// SPDX-License-Identifier: Apache-2.0
// A store in folders of a file system: who owns it, where its files are, what shape they have. One
// folder, or several (one per NUMA node), over which blocks are dealt in turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store {

enum class Kind : uint8_t {
  kMapped,  // nvdimm: files mapped; flushed by cache line where the medium allows it
  kStaged,  // memory of its own, written to the files by io_uring
};

struct DirectoryOptions {
  Kind kind = Kind::kMapped;
  // Bytes that the files may take at most, all together; 0: until the disk is full.
  uint64_t capacity_bytes = 0;
  uint32_t chunks_per_block = 2048;  // of a new store
  medium::Registrar* registrar = nullptr;
  Options store;
};

// A store in a folder, and the right to it: one owner at a time.
class DirectoryStore {
 public:
  // kExists if there is one. Makes the folders.
  [[nodiscard]] static Result<DirectoryStore> create(const std::vector<std::string>& folders,
                                                     const DirectoryOptions& options);
  // kNoStore, kInUse (with the owner's process id in `what`), kVersion, kDamaged, ...
  [[nodiscard]] static Result<DirectoryStore> open(const std::vector<std::string>& folders,
                                                   const DirectoryOptions& options,
                                                   OpenReport* report = nullptr);
  DirectoryStore(DirectoryStore&&) noexcept;
  DirectoryStore& operator=(DirectoryStore&&) noexcept;
  ~DirectoryStore();
  [[nodiscard]] Store& store();
  Store* operator->() { return &store(); }

 private:
  DirectoryStore();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Verifies the store in these folders, in use by another process or not. Takes no lock and changes
// nothing.
[[nodiscard]] Result<ScrubReport> scrub(const std::vector<std::string>& folders,
                                        const Progress& progress = {});

// What salvage brought over, and what it had to guess.
struct SalvageReport {
  bool by_log = false;  // the log was readable: names, sizes and ownership are certain
  uint64_t objects = 0;
  uint64_t chunks = 0;               // brought over
  uint64_t bad_chunks = 0;           // left behind
  std::vector<std::string> guesses;  // sentences
};
// Builds a new store from what is left of an old one.
[[nodiscard]] Result<SalvageReport> salvage(const std::vector<std::string>& from,
                                            const std::vector<std::string>& to,
                                            const Progress& progress = {});

}  // namespace verbena::store
