// SPDX-License-Identifier: Apache-2.0
// One object in memory, and a reference that keeps it alive while an operation uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/rw_lock.h"
#include "store/behind.h"
#include "store/segment_table.h"

namespace verbena::store {

struct Object {
  const uint64_t number;
  const ObjectId id;
  const uint64_t created_ns;
  // Changed with the catalog's lock and `lock`, read with either: no annotation can say so.
  std::string name;

  mutable RwLock lock;
  uint64_t size VERBENA_GUARDED_BY(lock) = 0;
  uint64_t modified_ns VERBENA_GUARDED_BY(lock) = 0;
  SegmentTable table VERBENA_GUARDED_BY(lock);
  // All `size` bytes, where there are no chunks; empty: in chunks.
  std::string content VERBENA_GUARDED_BY(lock);
  uint32_t content_crc VERBENA_GUARDED_BY(lock) = 0;  // of the content
  bool removed VERBENA_GUARDED_BY(lock) = false;
  bool listed VERBENA_GUARDED_BY(lock) = false;  // among those that are to be flushed behind
  Behind behind VERBENA_GUARDED_BY(lock);
  // Where that is, if not under its own name or id.
  std::shared_ptr<const Under> under VERBENA_GUARDED_BY(lock);
  // How often something was changed that is no run: see Behind::whole.
  uint64_t reshaped VERBENA_GUARDED_BY(lock) = 0;
  // How often what is behind was taken for something else.
  uint64_t adopted VERBENA_GUARDED_BY(lock) = 0;

  bool stored = false;                  // in a table; guarded by the store's world
  std::atomic<uint64_t> counted_in{0};  // the log's: what it takes in the next table
  // Changed since it was written to one, where there is a list of those.
  bool dirty = false;
  Object* next_dirty = nullptr;

  std::atomic<uint32_t> references{0};  // the catalog's, and those of operations

  // The size, a hole, or content: more differs from what is behind than the runs say.
  void note_reshaped() VERBENA_REQUIRES(lock) {
    behind.whole = false;
    ++reshaped;
  }
  // Nothing of it is here alone, and it is where it belongs.
  [[nodiscard]] bool is_flushed() const VERBENA_REQUIRES_SHARED(lock) {
    return behind.whole && !under && table.chunks() == table.chunks_in_both();
  }

  Object(uint64_t its_number, ObjectId its_id, uint64_t created)
      : number(its_number), id(its_id), created_ns(created), modified_ns(created) {}
};

// Of two objects, for writing: by number, so that two operations across each other do not wait for
// ever.
class VERBENA_SCOPED_CAPABILITY TwoObjectsLock {
 public:
  TwoObjectsLock(Object& a, Object& b) VERBENA_ACQUIRE(a.lock, b.lock)
      : first_((a.number < b.number ? a : b).lock), second_((a.number < b.number ? b : a).lock) {}
  TwoObjectsLock(const TwoObjectsLock&) = delete;
  TwoObjectsLock& operator=(const TwoObjectsLock&) = delete;
  ~TwoObjectsLock() VERBENA_RELEASE() {}

 private:
  const WriteLock first_;
  const WriteLock second_;
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
