// SPDX-License-Identifier: Apache-2.0
// What can be done with the objects of a store, wherever it is: in this process (store::Store), or
// at the other end of a connection (client::open_remote).
//
// Thread-safe. Each operation is atomic with respect to all others on its object. A change is
// visible when the call returns, and durable after the next flush(). Where the store is far away,
// any operation may fail with kUnreachable: a change may then have been made or not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/chunk.h"
#include "store/error.h"
#include "store/ranges.h"

namespace verbena::store {

struct ObjectInfo {
  ObjectId id;
  std::string name;       // empty: none
  uint64_t number = 0;    // internal
  uint64_t size = 0;      // bytes
  uint64_t chunks = 0;    // mapped, shared ones too
  uint64_t segments = 0;  // runs they lie in
  uint64_t content = 0;   // bytes that are in the index rather than in chunks
  // Of a cache: parts that are only behind it, chunks that are only here, and whether all of it is
  // behind as it is here.
  uint64_t behind = 0;
  uint64_t only_here = 0;
  bool flushed = false;
  uint64_t created_ns = 0;
  uint64_t modified_ns = 0;
};

struct SegmentInfo {
  uint64_t offset = 0;  // in the object, bytes
  uint64_t size = 0;    // bytes
  uint64_t chunk = 0;   // number of the first
  uint32_t count = 0;   // 0: its bytes are few, and in the index
  Birth birth;
  bool shared = false;  // at least one of its chunks is also elsewhere
};

// What to do about that which is behind a cache, and how it is then. Parts are of kDataBytes.
enum class BehindAction : uint8_t { kLook, kFlush, kEvict };
struct BehindReport {
  uint64_t only_here = 0;
  uint64_t in_both = 0;
  uint64_t behind = 0;
  uint64_t evicted = 0;
  bool flushed = false;
};

// Where to go on listing: behind this name and id.
struct Cursor {
  std::string name;
  ObjectId id;
};

// What a list may lack, because a part of the index is lost: one name, or several.
struct ListLoss {
  std::optional<std::string> name;    // this one; otherwise:
  std::string after;                  // those behind this one (empty: those without a name, too),
  std::optional<std::string> before;  // and before this one; none: to the end
  Error error;
};

struct CloneRequest {
  ObjectId from;
  ObjectId to;
  uint64_t from_offset = 0;
  uint64_t length = 0;  // 0: to the end of `from`
  uint64_t to_offset = 0;
  // `to` may exist (its range is replaced); otherwise it is made, with this name.
  bool allow_existing = false;
  std::string_view to_name{};
};

class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  virtual ~Objects() = default;

  [[nodiscard]] virtual Result<void> create_object(ObjectId id, std::string_view name = {}) = 0;
  [[nodiscard]] virtual Result<ObjectId> find(std::string_view name) const = 0;
  [[nodiscard]] virtual Result<void> remove(ObjectId id) = 0;
  // An empty name takes it away.
  [[nodiscard]] virtual Result<void> rename(ObjectId id, std::string_view name) = 0;
  // The object's bytes are those of `by` now, and `by` is gone, in one step: for replacing an
  // object by one that was written beside it. Id and name stay.
  [[nodiscard]] virtual Result<void> replace(ObjectId id, ObjectId by) = 0;
  [[nodiscard]] virtual Result<void> truncate(ObjectId id, uint64_t size) = 0;
  [[nodiscard]] virtual Result<ObjectInfo> stat(ObjectId id) const = 0;
  // In order of name, then id; the nameless first. Up to `limit` behind `after`; fewer only at the
  // end.
  // Where parts of the index are lost, the others are listed if there is `lost`, to which these
  // losses are added; otherwise it fails. What begins behind the last of the page may be among
  // them, and again on the next one.
  [[nodiscard]] virtual Result<std::vector<ObjectInfo>> list(
      const std::optional<Cursor>& after, size_t limit,
      std::vector<ListLoss>* lost = nullptr) const = 0;

  [[nodiscard]] virtual Result<void> write(ObjectId id, uint64_t offset,
                                           std::span<const uint8_t> bytes) = 0;
  // How many bytes: fewer than asked for at the object's end. Holes are zeros. On an error nothing
  // in `bytes` means anything. *crc, if not null: of the bytes read, derived from the stored ones.
  [[nodiscard]] virtual Result<size_t> read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                                            uint32_t* crc = nullptr) const = 0;
  [[nodiscard]] virtual Result<void> clone(const CloneRequest& request) = 0;
  // All changes before it are durable.
  [[nodiscard]] virtual Result<void> flush() = 0;

  // How many bytes one read() or write() of a large object is best for: a multiple of kDataBytes.
  // Far away, a call's requests are under way at once, and each call waits for the last of them.
  [[nodiscard]] virtual size_t piece_bytes() const { return kFarPieceBytes; }

  // What not every kind of store offers: kUnsupported then.

  // Up to `limit` from the one that holds `offset` or the next.
  [[nodiscard]] virtual Result<std::vector<SegmentInfo>> segments(ObjectId id, uint64_t offset,
                                                                  size_t limit) const;
  // CRC-32/BZIP2 of a range that ends within the object, from the CRCs that are stored with it: its
  // bytes are not read.
  [[nodiscard]] virtual Result<uint32_t> stored_crc(ObjectId id, uint64_t offset,
                                                    uint64_t length) const;
  // Of a cache, an object or all of it: the parts of all are not counted.
  [[nodiscard]] virtual Result<BehindReport> go_behind(const std::optional<ObjectId>& id,
                                                       BehindAction action);
  // As RangeRegistry::add(): until unregistered, or the connection to the store ends.
  [[nodiscard]] virtual Result<RangeId> register_range(ObjectId id, uint64_t offset,
                                                       uint64_t length, Access access);
  [[nodiscard]] virtual Result<void> unregister_range(RangeId range);

 private:
  static constexpr size_t kFarPieceBytes = 2073 * kDataBytes;  // 8 MiB
};

}  // namespace verbena::store
