// SPDX-License-Identifier: Apache-2.0
// The store: objects of bytes, all covered by CRCs, on a persistent medium. Without a network.
//
//   write -> fresh chunks -> record in the log -> mapping moved      flush -> durable
//   read  <- chunks verified, birth and CRC, while they are copied
//
// Thread-safe: each request is atomic with respect to all others on its object. A write is visible
// when it returns and durable after the next flush() (or at once: Durability::kEach). A crash keeps
// a prefix of all operations. A store whose medium is not persistent has no log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "medium/backend.h"
#include "store/behind.h"
#include "store/chunk.h"
#include "store/error.h"
#include "store/index_loss.h"
#include "store/mark.h"
#include "store/objects.h"
#include "store/ranges.h"

namespace verbena::store {

enum class Durability : uint8_t {
  kFlush,  // at flush(), at close(), and when flush_bytes are dirty
  kEach,   // before each operation returns
};

struct Options {
  Durability durability = Durability::kFlush;
  bool read_only = false;
  // If it is only read: objects are read from the index when they are asked for, so that opening
  // costs the same however many there are. Scrubbing, and whether chunks are shared, need all.
  bool on_demand = false;
  // For salvage, if it is only read: what is lost of index and log is left out, and reported.
  bool partial = false;
  // Dirty data beyond this is flushed by whoever writes. It bounds what opening after a crash has
  // to verify.
  uint64_t flush_bytes = uint64_t{32} << 20;
  // Runs of chunks that objects may consist of, all together: bounds the memory of the index.
  uint64_t max_mappings = 16'000'000;
  // And how many of those: they take about 500 bytes each, and three times their name.
  uint64_t max_objects = 4'000'000;
  // Refuse writes into ranges that other clients have registered.
  bool enforce_ranges = false;
  // It is a cache: there is something behind it. Once it was opened so, programs that do not know
  // such stores refuse it.
  bool cache = false;
  // Off for benchmarks alone, to see what checksums cost; such a store cannot be opened again.
  bool checksums = true;
  // For a program with a thread for it: called, by any thread, when tend() has something to do. An
  // operation then waits for the medium only when it must: see would_wait().
  std::function<void()> on_due{};
  // Wall clock; tests pass their own.
  std::function<uint64_t()> now_ns{};
  // The kernel's random numbers; tests pass their own. Drawn from when a store is created or opened
  // for writing.
  RandomNumbers random{};
  // Over how many media the backend deals its blocks: noted in a new store.
  uint32_t media = 1;
  // For tests: called while a checkpoint is written beside other operations, which it may do.
  std::function<void()> while_folding{};
  // Points of persistence to leave out (1 << PersistPoint): for the test that shows each is needed.
  uint32_t omit = 0;
};

struct SpaceInfo {
  uint64_t capacity = 0;  // chunks for data at most, as things are
  uint64_t used = 0;      // mapped by objects, each counted once, or pinned
  uint64_t pending = 0;   // free as soon as the log that says so is durable
  uint64_t free = 0;      // capacity - used - pending
  uint64_t log = 0;       // chunks that log, checkpoint and superblocks have
  uint64_t mappings = 0;
  uint64_t index_bytes = 0;  // memory that the index takes
};

struct StoreInfo {
  uint32_t tag = 0;
  uint32_t chunks_per_block = 0;
  uint32_t media = 1;
  uint32_t epoch = 0;       // how often it was opened for writing
  uint64_t generation = 0;  // of the superblock
  uint64_t created_ns = 0;
};

// Memory at equal distances, in order: `count` pieces of `bytes` each, `stride` apart. No memory:
// so many zeros (a hole that is read).
struct Scatter {
  uint8_t* memory = nullptr;
  uint32_t bytes = 0;
  uint32_t stride = 0;
  uint32_t count = 0;
};

class StoreImpl;

// Memory for a write that comes from a device: in fresh chunks, the first and last of which are
// completed at commit() by what the object has there then. Nothing of it is visible before; without
// commit() the memory is given back.
// The device must not write there any more once this is gone.
class PreparedWrite {
 public:
  PreparedWrite();
  PreparedWrite(PreparedWrite&&) noexcept;
  PreparedWrite& operator=(PreparedWrite&&) noexcept;
  ~PreparedWrite();
  [[nodiscard]] std::span<const Scatter> pieces() const;
  struct Crcs {
    // The device has stored the CRC of each whole chunk's data at offset 4084 of it.
    bool stored_in_chunks = false;
    // Of all the bytes, as the sender has it: refused if what arrived has another.
    std::optional<uint32_t> message;
  };
  [[nodiscard]] Result<void> commit(const Crcs& crcs);

 private:
  friend class StoreImpl;
  struct State;
  std::unique_ptr<State> state_;
};

// The bytes of a range where they lie, pinned: they stay as they are until this is gone.
class PreparedRead {
 public:
  PreparedRead();
  PreparedRead(PreparedRead&&) noexcept;
  PreparedRead& operator=(PreparedRead&&) noexcept;
  ~PreparedRead();
  [[nodiscard]] std::span<const Scatter> pieces() const;
  [[nodiscard]] uint64_t length() const;  // shorter than asked for at the object's end
  // Of these bytes, from the stored ones: it does not match if the memory was spoilt.
  [[nodiscard]] uint32_t crc() const;

 private:
  friend class StoreImpl;
  struct State;
  std::unique_ptr<State> state_;
};

// What opening found.
struct OpenReport {
  bool clean = false;  // it was closed in order
  uint64_t objects = 0;
  uint64_t mappings = 0;
  uint64_t log_chunks = 0;            // replayed
  uint64_t verified_chunks = 0;       // of data, past the watermark
  uint64_t dropped_transactions = 0;  // unfinished at the crash
  std::vector<Damage> damage;         // of one copy; the other one served
  // Copies that a crash may have left incomplete: no damage. Opening for writing completes them.
  std::vector<Damage> incomplete;
  std::vector<Damage> files;  // that are missing or cut off: see is_file()
  IndexLoss lost;             // with Options::partial
};

struct ScrubReport {
  uint64_t chunks = 0;      // of data, each once
  uint64_t log_chunks = 0;  // both copies
  uint64_t bytes = 0;
  std::vector<Damage> damage;  // the first kMaxDamage
  uint64_t damaged = 0;        // all
  // As in OpenReport.
  std::vector<Damage> incomplete;
  std::vector<Damage> files;  // that are missing or cut off: see is_file()
  bool past_cache = false;    // read from the medium itself
  static constexpr size_t kMaxDamage = 10'000;
};
struct CompactReport {
  uint64_t moved = 0;          // chunks
  uint64_t blocks_before = 0;  // that the medium had
  uint64_t blocks = 0;         // and has now
  std::vector<Damage> damage;  // chunks that stay where they are because of it, the first of them
  bool whole = true;           // false: it was stopped, or had no space to go on
};
// In blocks of the medium.
struct SpareSpace {
  uint64_t blocks = 0;  // that it has
  uint64_t spare = 0;   // of these, what compact() could give back, about
};
// Called now and then, with how many chunks; false stops the work.
using Progress = std::function<bool(uint64_t done, uint64_t all)>;

class Store final : public Objects {
 public:
  // A new one; what the medium held is gone.
  [[nodiscard]] static Result<std::unique_ptr<Store>> create(
      std::unique_ptr<medium::Backend> backend, Options options);
  // With numbers from this source instead of options.random.
  [[nodiscard]] static Result<std::unique_ptr<Store>> create(
      std::unique_ptr<medium::Backend> backend, Options options, RandomSource& random);
  [[nodiscard]] static Result<std::unique_ptr<Store>> open(std::unique_ptr<medium::Backend> backend,
                                                           Options options,
                                                           OpenReport* report = nullptr);
  ~Store() override;  // closes; errors of that are lost: call close()
  // Everything durable, and noted that it is. Nothing else may be going on. Afterwards only the
  // destructor may be called.
  [[nodiscard]] Result<void> close();

  [[nodiscard]] Result<void> create_object(ObjectId id, std::string_view name = {}) override;
  [[nodiscard]] Result<ObjectId> find(std::string_view name) const override;
  [[nodiscard]] Result<void> remove(ObjectId id) override;
  [[nodiscard]] Result<void> rename(ObjectId id, std::string_view name) override;
  [[nodiscard]] Result<void> replace(ObjectId id, ObjectId by) override {
    return replace(id, by, kNoClient);
  }
  [[nodiscard]] Result<void> truncate(ObjectId id, uint64_t size) override {
    return truncate(id, size, kNoClient);
  }
  [[nodiscard]] Result<ObjectInfo> stat(ObjectId id) const override;
  [[nodiscard]] Result<std::vector<ObjectInfo>> list(
      const std::optional<Cursor>& after, size_t limit,
      std::vector<ListLoss>* lost = nullptr) const override;
  [[nodiscard]] Result<std::vector<SegmentInfo>> segments(ObjectId id, uint64_t offset,
                                                          size_t limit) const override;
  [[nodiscard]] Result<uint32_t> stored_crc(ObjectId id, uint64_t offset,
                                            uint64_t length) const override;
  [[nodiscard]] Result<void> write(ObjectId id, uint64_t offset,
                                   std::span<const uint8_t> bytes) override {
    return write(id, offset, bytes, kNoClient);
  }
  [[nodiscard]] Result<size_t> read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                                    uint32_t* crc = nullptr) const override;
  [[nodiscard]] Result<void> clone(const CloneRequest& request) override {
    return clone(request, kNoClient);
  }
  [[nodiscard]] Result<void> flush() override;
  [[nodiscard]] size_t piece_bytes() const override { return 1024 * kDataBytes; }

  // The same for a client that may have registered ranges.
  [[nodiscard]] Result<void> replace(ObjectId id, ObjectId by, ClientId client);
  [[nodiscard]] Result<void> truncate(ObjectId id, uint64_t size, ClientId client);
  // `crc`: of the bytes, as the sender has it; other bytes are refused (kDamaged), with no effect.
  [[nodiscard]] Result<void> write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes,
                                   ClientId client, std::optional<uint32_t> crc = {});
  [[nodiscard]] Result<void> clone(const CloneRequest& request, ClientId client);

  [[nodiscard]] Result<PreparedWrite> prepare_write(ObjectId id, uint64_t offset, uint64_t length,
                                                    ClientId client = kNoClient);
  [[nodiscard]] Result<PreparedRead> prepare_read(ObjectId id, uint64_t offset,
                                                  uint64_t length) const;
  [[nodiscard]] RangeRegistry& ranges();

  // --- of a cache (Options::cache): see behind.h. Operations that need parts which are only behind
  // fail with kBehind, and may be tried again when those are here.
  [[nodiscard]] Result<PreparedFlush> prepare_flush(ObjectId id) const;
  // Notes that a version of it will be written behind, and which: `fresh`, a number that was never
  // used (random, and not within 2^32 of 2^64), unless others were begun whose end is not known.
  [[nodiscard]] Result<uint64_t> begin_flush(ObjectId id, uint64_t fresh);
  // It is there, durable.
  [[nodiscard]] Result<void> end_flush(const PreparedFlush& flushed, uint64_t version);
  // Of those that were begun this one is there, and no other will be. kConflict: it is none of
  // them.
  [[nodiscard]] Result<void> found_behind(ObjectId id, uint64_t version);
  // Nothing of it is behind any more, and all of it here: kBehind if it is not.
  [[nodiscard]] Result<void> detach(ObjectId id);
  // kBehind if parts of it are only there.
  [[nodiscard]] Result<void> check_here(ObjectId id) const;
  // Of one that is behind under another name: it is there under this one now (an id, if it is
  // empty), in this version.
  [[nodiscard]] Result<void> move_behind(ObjectId id, const std::string& name, ObjectId under,
                                         uint64_t version);
  // And this version is under its own name, which is nobody's: it is to be replaced.
  [[nodiscard]] Result<void> replaces_behind(ObjectId id, uint64_t version);
  [[nodiscard]] Result<PlaceBehind> behind(ObjectId id) const;
  // Objects that were changed since they were taken last, or since the store was opened: what to
  // flush. Some may be flushed, or gone.
  [[nodiscard]] std::vector<ObjectId> take_unflushed();
  // Gives back the chunks of these parts that are behind as well; how many.
  [[nodiscard]] Result<uint64_t> evict(ObjectId id, uint64_t first, uint64_t count);
  // The first of these parts that are only behind, and those that follow them; none: all are here.
  [[nodiscard]] Result<PreparedFill> prepare_fill(ObjectId id, uint64_t first, uint64_t count);
  // A new object, all of which is behind.
  [[nodiscard]] Result<void> adopt(ObjectId id, std::string_view name, const AdoptedState& there);
  // One that was changed there by others. kConflict: it was changed here, too.
  [[nodiscard]] Result<void> adopt_again(ObjectId id, const AdoptedState& there);

  // Writes the whole index anew and forgets the log before it; happens by itself, too.
  [[nodiscard]] Result<void> checkpoint();
  // Flushes and checkpoints what is due. With Options::on_due.
  [[nodiscard]] Result<void> tend();
  // Whether an operation that changes something may have to wait for the medium: so much is dirty
  // that tend() cannot keep up.
  [[nodiscard]] bool would_wait() const;
  [[nodiscard]] SpaceInfo space() const;
  [[nodiscard]] medium::Properties medium_properties() const;
  [[nodiscard]] StoreInfo info() const;
  // Every live chunk and both copies of the log, from the medium itself, beside whatever goes on.
  [[nodiscard]] Result<ScrubReport> scrub(const Progress& progress = {});
  // Moves what lies at the end of the medium to where there is space before, and gives the end back
  // to the system. Beside whatever goes on, which waits for checkpoints of the whole index. Objects
  // are what they were, their times too. Stopping it, and crashes, lose nothing. `progress` is
  // called without locks, after about a megabyte each. `slack`: percent of the data for which space
  // stays, so that the medium need not grow at once.
  [[nodiscard]] Result<CompactReport> compact(const Progress& progress = {}, uint32_t slack = 0);
  // What it would give back; cheap.
  [[nodiscard]] SpareSpace spare_space(uint32_t slack = 0) const;

 private:
  friend class StoreImpl;
  explicit Store(std::unique_ptr<StoreImpl> impl);
  std::unique_ptr<StoreImpl> impl_;
};

}  // namespace verbena::store
