// SPDX-License-Identifier: Apache-2.0
// A store in directories of a file system: its owner, its files and their layout. One directory, or
// several (one per NUMA node), over which blocks are distributed round-robin.
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

// A store in a directory, and its lock: one owner at a time.
class DirectoryStore {
 public:
  // kExists if there is one. Makes the folders.
  [[nodiscard]] static Result<DirectoryStore> create(const std::vector<std::string>& folders,
                                                     const DirectoryOptions& options);
  // kNoStore, kInUse (with the owner's process id or address in `what`), kVersion, kDamaged, ...
  [[nodiscard]] static Result<DirectoryStore> open(const std::vector<std::string>& folders,
                                                   const DirectoryOptions& options,
                                                   OpenReport* report = nullptr);
  DirectoryStore(DirectoryStore&&) noexcept;
  DirectoryStore& operator=(DirectoryStore&&) noexcept;
  ~DirectoryStore();
  [[nodiscard]] Store& store();
  Store* operator->() { return &store(); }
  // A server has it, and is reached at this address, "HOST:PORT": others who want to open the store
  // are told so, until it is closed. An address that they can use, such as "127.0.0.1:7471" rather
  // than "0.0.0.0:7471".
  [[nodiscard]] Result<void> announce(const std::string& server);

 private:
  DirectoryStore();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Verifies the store in these folders, in use by another process or not. Takes no lock and changes
// nothing.
[[nodiscard]] Result<ScrubReport> scrub(const std::vector<std::string>& folders,
                                        const Progress& progress = {});

// What salvage copied, and what it had to guess.
struct SalvageReport {
  bool by_log = false;  // the log was readable: names, sizes and ownership are exact
  // Otherwise, index and log were readable in part: that is so of objects that no guess names.
  bool by_part = false;
  uint64_t objects = 0;
  uint64_t chunks = 0;               // copied
  uint64_t bad_chunks = 0;           // not copied
  uint64_t lost_files = 0;           // missing or cut off
  std::vector<std::string> guesses;  // sentences
};
// Builds a new store from a damaged one.
[[nodiscard]] Result<SalvageReport> salvage(const std::vector<std::string>& from,
                                            const std::vector<std::string>& to,
                                            const Progress& progress = {});

}  // namespace verbena::store
