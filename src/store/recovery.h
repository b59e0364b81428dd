// SPDX-License-Identifier: Apache-2.0
// Reads a store that is opened again: superblock, tables, log, and of what came last the data as
// well. What it finds goes into the parts of a StoreImpl.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/log_reader.h"
#include "store/replay.h"
#include "store/roots.h"
#include "store/store_impl.h"

namespace verbena::store {

class StoreImpl::Recovery {
 public:
  Recovery(StoreImpl& store, OpenReport& report)
      : store_(store),
        report_(report),
        log_space_(store.space_),
        replay_([this](const Run& run) { return possible(run); },
                most_runs(store.options_.max_mappings), store.options_.max_objects) {}

  [[nodiscard]] Result<void> run();

 private:
  [[nodiscard]] Space& space() { return store_.space_; }
  [[nodiscard]] bool partial() const { return store_.options_.partial; }
  [[nodiscard]] static std::span<const uint8_t, kChunkBytes> as_chunk(const uint8_t* memory) {
    return std::span<const uint8_t, kChunkBytes>(memory, kChunkBytes);
  }
  // Threads that write at once may have gone a little beyond the bound. And a transaction is
  // replayed piece by piece: what replaces an object is there twice before it goes.
  [[nodiscard]] static uint64_t most_runs(uint64_t bound) { return 2 * (bound + bound / 8 + 1024); }
  [[nodiscard]] bool possible(const Run& run);
  [[nodiscard]] bool is_there(uint64_t block) const;
  [[nodiscard]] bool may_name(uint64_t block) const;

  // --- the superblocks, and where the log is (recovery.cc)
  [[nodiscard]] Result<void> read_root();
  void note_copy(RootCopy state, uint64_t chunk);
  [[nodiscard]] RootSupport support(const Superblock& root, const Superblock& other);
  [[nodiscard]] Result<void> load_all(uint32_t position);
  [[nodiscard]] Result<void> claim_log();

  // --- tables (recovery_tables.cc)
  [[nodiscard]] Result<void> read_index();
  [[nodiscard]] Result<void> open_tables();
  [[nodiscard]] Result<void> read_tables();
  [[nodiscard]] Result<void> read_partial();
  [[nodiscard]] Error refused(const char* of, uint64_t sequence, uint64_t chunk,
                              const std::string& why);

  // --- the log (recovery_log.cc)
  [[nodiscard]] Result<void> read_log();
  [[nodiscard]] Result<void> check_origin(const LogChunk& chunk);
  [[nodiscard]] Result<void> check_copies(const LogChunk& chunk);
  [[nodiscard]] Result<void> check_tail(const LogChunk& chunk);
  [[nodiscard]] Result<bool> replay_chunk(const LogChunk& chunk);
  [[nodiscard]] Result<void> apply(const Record& record, const LogChunk& chunk);
  [[nodiscard]] bool data_is_there();
  void note_lost(const LogChunk& chunk);
  void lose_log(uint64_t sequence);
  [[nodiscard]] static Error bad_record(const LogChunk& chunk, RecordFault fault);
  [[nodiscard]] static Error missing(uint64_t sequence);

  // --- and what comes of it (recovery.cc)
  [[nodiscard]] Result<void> take_over();
  void changed(Object& object);
  void note_damaged();
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> mend_root();

  StoreImpl& store_;
  OpenReport& report_;
  Roots roots_;
  LogSpace log_space_;
  Replay replay_;
  ChunkMemory memory_ = [this](uint64_t chunk) { return space().memory(chunk); };
  Superblock root_;
  std::vector<LogChunk> log_;
  std::vector<Record> pending_;  // of the transaction that is being read
  // On demand: objects whose OBJECT is there, but not all their runs.
  std::map<uint64_t, std::pair<ObjectId, std::string>> unloaded_;
  std::vector<Piece> tail_;  // data past the watermark
  uint64_t watermark_ = 0;
  uint64_t next_ = 0;
  uint64_t seen_ = 0;
  uint64_t last_txn_ = 0;     // that is known so far; for salvage
  bool bad_tables_ = false;   // a copy of a chunk of theirs is not good
  bool lacking_ = false;      // blocks that there could be
  uint64_t table_bytes_ = 0;  // that what the log changed takes in the next table
  bool irregular_ = false;    // the log does not end where a chunk does, or a copy is not good
};

}  // namespace verbena::store
