// SPDX-License-Identifier: Apache-2.0
// What is behind a store that is used as a cache: whole objects, durable, with the CRC of each
// part.
//
//   flush:  update(base, next) -> put, hole ... -> commit    all of the new version, or the old one
//   miss:   load(version, parts)                             verified, or an error
//
// An object is behind under its name, or if it has none under its id. Each state of it that was
// committed has a version: a number that its writer has drawn, so that no two states have the same.
// A version that is not the expected one is another history: refused (kConflict), never mixed.
//
// Calls block, in bounded time, and may come from several threads at once, put() and hole() of one
// update too; of one object at most one update at a time. Memory is only used during the call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/object_id.h"
#include "store/chunk.h"
#include "store/error.h"

namespace verbena::backend {

using store::Code;
using store::Error;
using store::ObjectId;
template <typename T>
using Result = store::Result<T>;

// Objects are dealt with in parts, as the store's chunks have them: part i holds the bytes from i *
// kPartBytes on. The CRC of a part is that of kPartBytes bytes, zeros after the end of the object.
inline constexpr uint32_t kPartBytes = store::kDataBytes;

struct Key {
  std::string name;  // empty: by its id
  ObjectId id;       // of an object without a name; otherwise as the store has it, and not compared
  bool operator==(const Key&) const = default;
};

// The state of an object that is there.
struct State {
  uint64_t version = 0;  // not 0
  uint64_t size = 0;     // bytes
  uint64_t modified_ns = 0;
  bool operator==(const State&) const = default;
};
struct Entry {
  Key key;
  State state;
};

// A part that is to be written: kPartBytes bytes (in the last one those after the object's end are
// zeros) and their CRC, which is kept as it is given and not computed anew.
struct PartToPut {
  const uint8_t* bytes = nullptr;
  uint32_t crc = 0;
};
// And one that is read: the bytes, filled up with zeros, and the CRC that they were found to have.
struct PartToLoad {
  uint8_t* bytes = nullptr;
  uint32_t crc = 0;
};

// A new version of an object. What is neither put nor said to be a hole is as in the base, or in
// the source. Unless it is committed, it is as if it had never been, whatever happens to either
// end.
class Update {
 public:
  Update() = default;
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;
  virtual ~Update() = default;
  // In any order; each part at most once (kInvalid). After an error only the end of the update is
  // left: commit() fails too.
  [[nodiscard]] virtual Result<void> put(uint64_t first, std::span<const PartToPut> parts) = 0;
  // Parts [first, first + count) are zeros, and take no space if the tier can do so.
  [[nodiscard]] virtual Result<void> hole(uint64_t first, uint64_t count) = 0;
  // Durable when it returns without an error. kConflict: the base is not what is there any more.
  // After another error the new version or the base is there: state() tells which.
  [[nodiscard]] virtual Result<void> commit() = 0;
};

// A version of another object.
struct Source {
  Key key;
  uint64_t version = 0;
};
struct NewState {
  std::optional<uint64_t> base;  // the version that is replaced; none: there is no object
  State state;                   // afterwards
  // What it begins from, if that is another object: what is neither put nor a hole is as there. It
  // stays as it is. kConflict if it is another version, or gone.
  std::optional<Source> source{};
};

class Tier {
 public:
  Tier() = default;
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;
  virtual ~Tier() = default;

  // For messages: "directory /srv/objects".
  [[nodiscard]] virtual std::string describe() const = 0;
  // kNotFound: there is none.
  [[nodiscard]] virtual Result<State> state(const Key& key) = 0;
  // All objects, in no order; `each` answers false to stop. One whose state cannot be told because
  // it is damaged has version 0 here; state() says what is wrong with it. If not even its key can
  // be told, kDamaged is returned after all others.
  using Each = std::function<bool(Entry entry)>;
  [[nodiscard]] virtual Result<void> list(const Each& each) = 0;
  // Parts from `first` on, of this very version (otherwise kConflict, or kNotFound). kDamaged if
  // the bytes are not those that were put; `damage` has the object's offset.
  [[nodiscard]] virtual Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                          std::span<PartToLoad> parts) = 0;
  // The base is looked at here and at commit().
  [[nodiscard]] virtual Result<std::unique_ptr<Update>> update(const Key& key,
                                                               const NewState& wanted) = 0;
  // This very version. That there is none is no error.
  [[nodiscard]] virtual Result<void> remove(const Key& key, uint64_t version) = 0;
};

}  // namespace verbena::backend
