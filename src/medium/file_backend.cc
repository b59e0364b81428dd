// SPDX-License-Identifier: Apache-2.0
#include "medium/file_backend.h"

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "medium/backend.h"
#include "medium/block_files.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

[[nodiscard]] std::unexpected<Error> only_for_reading(const BlockFiles& files) {
  return fail(Error{Code::kBad, files.options().folder + " is open read-only"});
}

}  // namespace

FileBackend::FileBackend(std::unique_ptr<BlockFiles> files)
    : files_(std::move(files)), positions_(files_->capacity()) {}

Result<Block> FileBackend::allocate() {
  if (files_->options().read_only) return only_for_reading(*files_);
  for (;;) {
    std::optional<uint32_t> position;
    {
      const MutexLock lock(mutex_);
      position = positions_.lowest_free();
      if (position && *position < existing()) return take(*position, false);
    }
    if (!position) position = lowest_free();
    if (!position) {
      return fail(Error{Code::kFull, "all " + std::to_string(capacity()) + " blocks of " +
                                         files_->options().folder + " are in use"});
    }
    if (auto grown = grow_to(*position); !grown) return fail(grown.error());
  }
}

std::optional<uint32_t> FileBackend::lowest_free() {
  const MutexLock fencing(fence_mutex_);
  settle_released();
  const MutexLock lock(mutex_);
  return positions_.lowest_free();
}

Result<Block> FileBackend::claim(uint32_t position) {
  try_settle();
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (position >= capacity() || positions_.held(position)) {
        return fail(Error{Code::kBad, "block " + std::to_string(position) + " of " +
                                          files_->options().folder +
                                          " is in use or does not exist; there are " +
                                          std::to_string(capacity()) + " blocks"});
      }
      if (position < existing()) return take(position, true);
    }
    if (files_->options().read_only) return only_for_reading(*files_);
    if (auto grown = grow_to(position); !grown) return fail(grown.error());
  }
}

void FileBackend::try_settle() {
  if (!fence_mutex_.try_lock()) return;
  const MutexLock fencing(fence_mutex_, std::adopt_lock);
  settle_released();
}

Result<void> FileBackend::grow_to(uint32_t position) {
  const MutexLock files(files_mutex_);
  return files_->grow_to(position);
}

void FileBackend::release(Block block) {
  const MutexLock lock(mutex_);
  give(block.position);
}

bool FileBackend::any_held(const BlockFile& file) const {
  for (uint32_t position = file.first; position < file.first + file.blocks; ++position) {
    if (positions_.held(position)) return true;
  }
  return false;
}

bool FileBackend::leave_last_file() {
  const MutexLock fencing(fence_mutex_);
  settle_released();
  const MutexLock lock(mutex_);
  const uint32_t index = files_->count() - 1;
  const BlockFile& last = files_->file(index);
  if (any_held(last) || !may_remove(index)) return false;
  // Of blocks that were released before they were written out.
  if (!queue_.drop(last.first * uint64_t{block_bytes()},
                   (uint64_t{last.first} + last.blocks) * block_bytes())) {
    return false;
  }
  files_->leave_last();
  return true;
}

Result<uint32_t> FileBackend::trim() {
  if (files_->options().read_only) return only_for_reading(*files_);
  const MutexLock files(files_mutex_);
  const uint32_t before = existing();
  while (files_->count() > 1 && leave_last_file()) {
    detach(files_->count());
    if (auto removed = files_->remove_left(); !removed) return fail(removed.error());
  }
  return before - existing();
}

// One at a time: a second one must not return before the first has written what it took. Nor may a
// later one say that all is durable if this one ran out of memory with what it had taken.
Result<void> FileBackend::fence() {
  const MutexLock lock(fence_mutex_);
  if (failure_) return fail(*failure_);
  return write_queue();
}

Result<void> FileBackend::fence_after_failure() {
  const MutexLock lock(fence_mutex_);
  return write_queue();
}

Result<void> FileBackend::write_queue() {
  try {
    auto done = write_out(files_->split(queue_.take()));
    settle_released();
    if (!done && !failure_) failure_ = done.error();
    return done;
  } catch (const std::bad_alloc&) {
    if (!failure_) failure_ = Error{Code::kNoMemory, "out of memory"};  // short: needs none itself
    return fail(Error{Code::kNoMemory, "out of memory"});
  }
}

Result<Block> FileBackend::take(uint32_t position, bool claimed) {
  auto memory = attach(position, claimed);
  if (!memory) return fail(memory.error());
  positions_.take(position);
  return Block{position, *memory};
}

}  // namespace verbena::medium
