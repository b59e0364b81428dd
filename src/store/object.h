// SPDX-License-Identifier: Apache-2.0
// One object in memory, and a reference that keeps it alive while an operation uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/rw_lock.h"
#include "store/segment_table.h"

namespace verbena::store {

struct Object {
  const uint64_t number;
  const ObjectId id;
  const uint64_t created_ns;
  std::string name;  // changed with the catalog's lock and `lock`, read with either

  mutable RwLock lock;  // guards what follows
  uint64_t size = 0;
  uint64_t modified_ns = 0;
  SegmentTable table;
  std::string content;       // all `size` bytes, where there are no chunks; empty: in chunks
  uint32_t content_crc = 0;  // of the content
  bool removed = false;

  bool stored = false;                  // in a table; guarded by the store's world
  std::atomic<uint64_t> counted_in{0};  // the log's: what it takes in the next table
  // Changed since it was written to one, where there is a list of those.
  bool dirty = false;
  Object* next_dirty = nullptr;

  std::atomic<uint32_t> references{0};  // the catalog's, and those of operations

  Object(uint64_t its_number, ObjectId its_id, uint64_t created)
      : number(its_number), id(its_id), created_ns(created), modified_ns(created) {}
};

class ObjectRef {
 public:
  ObjectRef() = default;
  explicit ObjectRef(Object* object) : object_(object) {
    if (object != nullptr) object->references.fetch_add(1, std::memory_order_relaxed);
  }
  ObjectRef(ObjectRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ObjectRef& operator=(ObjectRef&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ObjectRef() {
    // acq_rel: whoever deletes it has seen what the others did.
    if (object_ != nullptr && object_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete object_;
    }
  }
  // Takes over a reference that is counted already.
  [[nodiscard]] static ObjectRef adopt(Object* object) {
    ObjectRef mine;
    mine.object_ = object;
    return mine;
  }
  [[nodiscard]] ObjectRef share() const { return ObjectRef(object_); }
  explicit operator bool() const { return object_ != nullptr; }
  Object& operator*() const { return *object_; }
  Object* operator->() const { return object_; }
  [[nodiscard]] Object* get() const { return object_; }

 private:
  Object* object_ = nullptr;
};

}  // namespace verbena::store
