// SPDX-License-Identifier: Apache-2.0
// Nobody else flushes, removes or renames these objects until this is gone.
#pragma once

#include <algorithm>
#include <array>
#include <set>

#include "base/mutex.h"
#include "base/object_id.h"

namespace verbena::cache {

class BusyObjects {
 public:
  void take(ObjectId id) {
    const MutexLock lock(mutex_);
    while (!busy_.insert(id).second) changed_.wait(mutex_);
  }
  void give(ObjectId id) {
    const MutexLock lock(mutex_);
    busy_.erase(id);
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::set<ObjectId> busy_ VERBENA_GUARDED_BY(mutex_);
};

class Busy {
 public:
  Busy(BusyObjects& objects, ObjectId id) : Busy(objects, id, id) {}
  // In order, so that two of them do not wait for each other.
  Busy(BusyObjects& objects, ObjectId a, ObjectId b)
      : objects_(objects), first_(std::min(a, b)), second_(std::max(a, b)) {
    objects_.take(first_);
    if (second_ != first_) objects_.take(second_);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    if (second_ != first_) objects_.give(second_);
    objects_.give(first_);
  }

 private:
  BusyObjects& objects_;
  const ObjectId first_;
  const ObjectId second_;
};

}  // namespace verbena::cache
