// SPDX-License-Identifier: Apache-2.0
// The memory of a store: blocks of one size, each at a fixed address as long as it is held.
// Backends are stacked: one that provides memory (malloc, nvdimm, staged), a cache of released
// blocks over it, and a distribution (balance) over several of those.
//
// A block has a *position*, by which a store that is opened again finds it: 0, 1, 2, ... without
// gaps. (In a balance, the positions of each medium have no gaps.) Memory becomes durable by
// flush() and then fence(); until then any part of it may be on the medium, in any order.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace verbena::medium {

enum class Code : uint8_t {
  kFull,      // no space for another block; works again when one is released
  kNoMemory,  // the kernel has none, or RLIMIT_MEMLOCK does not allow it
  kIo,        // the medium failed: its content is unknown
  kBad,       // not a medium of a store, or one with another layout
};
struct Error {
  Code code = Code::kIo;
  std::string what;  // what happened, to what, and what to do
};
template <typename T>
using Result = verbena::Result<T, Error>;

struct Block {
  uint32_t position = 0;
  uint8_t* memory = nullptr;  // block_bytes() of it, aligned to 4096 at least
};

struct Properties {
  std::string name;               // for people: "nvdimm (msync)"
  bool persistent = false;        // blocks outlive the process
  bool loaded_on_demand = false;  // load() before the first look at memory of a claimed block
  // Memory may be registered with a device and written by it: it is the medium itself or stages it.
  // A page-cache mapping is not for a real NIC: kernels refuse to pin it.
  bool device_target = false;
};

// Told of memory as it comes and goes, to register it with a device: whole mappings, not blocks.
class Registrar {
 public:
  virtual ~Registrar() = default;
  virtual Result<void> add(uint8_t* memory, size_t bytes) = 0;
  virtual void remove(uint8_t* memory, size_t bytes) = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual size_t block_bytes() const = 0;
  [[nodiscard]] virtual Properties properties() const = 0;
  // How many blocks there are at most, held or not.
  [[nodiscard]] virtual uint32_t capacity() const = 0;
  // Every position is below this. More than capacity() only over media of different size.
  [[nodiscard]] virtual uint32_t positions() const { return capacity(); }
  // How many the medium has now: positions below it can be claimed after opening. (Over several
  // media, some of them may have to be made.)
  [[nodiscard]] virtual uint32_t existing() const = 0;
  // Whether it has this one now: those below existing(), but for what one of several media lacks.
  [[nodiscard]] virtual bool has(uint32_t position) const { return position < existing(); }

  // A block that nobody holds. Its content is anything.
  [[nodiscard]] virtual Result<Block> allocate() = 0;
  // The block at this position, which nobody holds; made if there is none yet. kBad if it is held,
  // or if there can be none.
  [[nodiscard]] virtual Result<Block> claim(uint32_t position) = 0;
  // Nobody looks at it any more.
  virtual void release(Block block) = 0;
  // Gives memory or files behind the last block that somebody holds back to the system, as far as
  // it can; how many blocks the medium has less. Nothing that is durable may refer to them.
  [[nodiscard]] virtual Result<uint32_t> trim() { return 0; }
  // Below which position all must lie for trim() to leave as little as can be, and `blocks` at
  // least.
  [[nodiscard]] virtual uint32_t trimmed(uint32_t blocks) const {
    static_cast<void>(blocks);
    return existing();
  }

  // Makes memory of a claimed block show what the medium holds. For loaded_on_demand backends, and
  // before the first write there as well as before the first look: loading goes by larger pieces
  // than chunks, and would overwrite what was written before. Cheap when it is there already, and
  // for allocated blocks, whose memory is what it is. What the medium cannot give is zeros, and
  // unreadable(); an error means that nothing of it is known.
  [[nodiscard]] virtual Result<void> load(const uint8_t* memory, size_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return {};
  }
  // Both of whole cache lines, within one block. flush() begins; fence() waits until all that was
  // flushed before, by any thread, is durable. After an error of fence() nothing is known of it,
  // and every later one fails as well: the kernel forgets what it could not write.
  virtual void flush(const uint8_t* memory, size_t bytes) = 0;
  [[nodiscard]] virtual Result<void> fence() = 0;
  // Like flush(), of whole pages that were not changed since the block was claimed: the next fence
  // writes them all the same. Memory may show what a process wrote that was killed, or whose sync
  // failed: in the page cache such pages may count as written though the medium never got them.
  virtual void rewrite(uint8_t* memory, size_t bytes) { flush(memory, bytes); }
  // Once more after a fence has failed: makes durable what was flushed since, as well as the medium
  // can. What the failed one took stays unknown, and fence() goes on failing.
  [[nodiscard]] virtual Result<void> fence_after_failure() { return fence(); }

  // Whether the medium could not give some of this memory of a claimed block (a sector cannot be
  // read, a file was cut off): it was zeros when it was first looked at. Whole pages can be written
  // there as anywhere.
  [[nodiscard]] virtual bool unreadable(const uint8_t* memory, size_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return false;
  }

  // What the medium itself holds, past memory and page cache where the system can: for scrubbing.
  // Of a block that is held, or of one that it has(); offset and length are multiples of 4096.
  [[nodiscard]] virtual Result<void> read_medium(uint32_t position, size_t offset,
                                                 std::span<uint8_t> out) = 0;
  // Whether read_medium() does read past the page cache.
  [[nodiscard]] virtual bool reads_past_cache() const { return false; }
};

}  // namespace verbena::medium
