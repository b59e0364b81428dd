// SPDX-License-Identifier: Apache-2.0
// What a store must be like, in the simplest way that can say it: objects as maps of cells, one
// cell for each chunk that is not a hole. A cell's address is its identity: two places that have
// the same cell must have the same chunk of the store, and the store uses as many chunks as there
// are cells.
//
// Cells never change, so a copy of a model is cheap and stays as it was.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace verbena::store::trial {

struct Cell {
  std::array<uint8_t, kDataBytes> bytes{};
};
using CellRef = std::shared_ptr<const Cell>;

struct ModelObject {
  std::string name;
  uint64_t size = 0;
  std::map<uint64_t, CellRef> cells;  // by index; none: a hole
  bool in_chunks = false;  // otherwise its bytes are few, and the store has no chunk for them
};

// Why an operation is refused; nothing: it is done.
using Refusal = std::optional<Code>;

class Model {
 public:
  // Of a store that has chunks for all bytes.
  void always_chunks() { always_chunks_ = true; }
  [[nodiscard]] Refusal create(ObjectId id, const std::string& name);
  [[nodiscard]] Refusal remove(ObjectId id);
  [[nodiscard]] Refusal rename(ObjectId id, const std::string& name);
  [[nodiscard]] Refusal replace(ObjectId id, ObjectId by);
  [[nodiscard]] Refusal truncate(ObjectId id, uint64_t size);
  // `device`: what comes from one goes into chunks.
  [[nodiscard]] Refusal write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes,
                              bool device = false);
  [[nodiscard]] Refusal clone(const CloneRequest& request);

  [[nodiscard]] const std::map<ObjectId, ModelObject>& objects() const { return objects_; }
  [[nodiscard]] const ModelObject* find(ObjectId id) const;
  [[nodiscard]] std::optional<ObjectId> find(const std::string& name) const;
  // In the order of Store::list.
  [[nodiscard]] std::vector<ObjectId> listing() const;
  // Of `length` bytes at most, up to the object's end.
  [[nodiscard]] std::vector<uint8_t> read(ObjectId id, uint64_t offset, uint64_t length) const;
  // The cells of a range, as a pin of it would hold them.
  [[nodiscard]] std::vector<CellRef> cells(ObjectId id, uint64_t offset, uint64_t length) const;
  // Chunks that the store must be using: those of objects, and those that `pinned` holds.
  [[nodiscard]] uint64_t used(std::span<const CellRef> pinned = {}) const;

  // Equal in all that a user sees: ids, names, sizes, bytes.
  [[nodiscard]] bool same(const Model& other) const;
  [[nodiscard]] std::string differs(const Model& other) const;

 private:
  [[nodiscard]] bool name_is_free(const std::string& name) const;
  std::map<ObjectId, ModelObject> objects_;
  bool always_chunks_ = false;
};

[[nodiscard]] std::string text(ObjectId id);

}  // namespace verbena::store::trial
