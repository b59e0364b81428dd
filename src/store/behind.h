// SPDX-License-Identifier: Apache-2.0
// What a store has to do with another one behind it, for which it is the cache. The store itself
// does not know what that is: it says what is to be written there, and is told what was.
//
//   kHere -> kBoth     prepare_flush, begin_flush, flush(), [written behind], end_flush
//   kBoth -> kBehind   evict
//   kBehind -> kBoth   a kBehind error, prepare_fill, [read from behind], commit
//
// An object is recorded to be flushed only after it was; the intent is recorded before. So whatever
// is newer than what is behind is known to be, after a crash as well.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "store/error.h"
#include "store/record.h"

namespace verbena::store {

// An object that was renamed, or has taken the place of another one, may be behind under another
// name than its own until it is flushed. Where that is, and what may be under its own.
struct Under {
  std::string name;  // empty: by the id
  ObjectId id;
  Behind own;

  explicit Under(const UnderView& view) : name(view.name), id(view.id), own(view.own) {}
  Under(std::string its_name, ObjectId its_id, const Behind& its_own)
      : name(std::move(its_name)), id(its_id), own(its_own) {}
};
[[nodiscard]] inline std::optional<UnderView> view_of(const std::shared_ptr<const Under>& under) {
  if (!under) return std::nullopt;
  return UnderView{under->name, under->id, under->own};
}
[[nodiscard]] inline std::shared_ptr<const Under> under_of(const std::optional<UnderView>& view) {
  return view ? std::make_shared<const Under>(*view) : nullptr;
}

// Which versions of an object may be behind, and where.
struct PlaceBehind {
  Behind behind;
  std::shared_ptr<const Under> under;  // null: under its own name or id

  // What may be under its own.
  [[nodiscard]] const Behind& own() const { return under ? under->own : behind; }
};

class StoreImpl;

// All of an object that is not behind, as it was at one moment: its chunks stay until this is gone.
class PreparedFlush {
 public:
  PreparedFlush();
  PreparedFlush(PreparedFlush&&) noexcept;
  PreparedFlush& operator=(PreparedFlush&&) noexcept;
  ~PreparedFlush();

  [[nodiscard]] bool nothing() const;  // to do
  [[nodiscard]] ObjectId id() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] uint64_t size() const;
  [[nodiscard]] uint64_t modified_ns() const;
  [[nodiscard]] const PlaceBehind& base() const;
  // What differs from the base, in order: chunks, or zeros.
  struct Span {
    uint64_t first = 0;
    uint64_t count = 0;
    bool hole = false;
  };
  [[nodiscard]] std::span<const Span> spans() const;
  // The bytes of part i of a span with chunks (kDataBytes, zeros after the end), proven right.
  struct Part {
    const uint8_t* bytes = nullptr;
    uint32_t crc = 0;
  };
  [[nodiscard]] Result<Part> part(size_t span, uint64_t i) const;

 private:
  friend class StoreImpl;
  struct State;
  std::unique_ptr<State> state_;
};

// Chunks for parts that are behind, to be filled from there.
class PreparedFill {
 public:
  PreparedFill();
  PreparedFill(PreparedFill&&) noexcept;
  PreparedFill& operator=(PreparedFill&&) noexcept;
  ~PreparedFill();

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] ObjectId id() const;
  [[nodiscard]] const PlaceBehind& base() const;
  [[nodiscard]] uint64_t first() const;
  struct Part {
    uint8_t* bytes = nullptr;  // kDataBytes, all to be written
    uint32_t crc = 0;          // of these, to be set
  };
  [[nodiscard]] std::span<Part> parts();
  // Of this version behind, from which they were read. They are the object's as far as these parts
  // are still only behind, and nothing newer is there: others may have been written, flushed and
  // evicted meanwhile.
  [[nodiscard]] Result<void> commit(uint64_t version);

 private:
  friend class StoreImpl;
  struct State;
  std::unique_ptr<State> state_;
};

// An object as it is behind.
struct AdoptedState {
  uint64_t version = 0;
  uint64_t size = 0;
  uint64_t modified_ns = 0;
};

}  // namespace verbena::store
