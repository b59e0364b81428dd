// SPDX-License-Identifier: Apache-2.0
#include "medium/file_backend.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

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
  const std::lock_guard lock(mutex_);
  if (files_->options().read_only) return only_for_reading(*files_);
  const std::optional<uint32_t> position = positions_.lowest_free();
  if (!position) {
    return fail(Error{Code::kFull, "all " + std::to_string(capacity()) + " blocks of " +
                                       files_->options().folder + " are in use"});
  }
  return take(*position, false);
}

Result<Block> FileBackend::claim(uint32_t position) {
  const std::lock_guard lock(mutex_);
  if (position >= capacity() || positions_.held(position)) {
    return fail(Error{Code::kBad, "block " + std::to_string(position) + " of " +
                                      files_->options().folder +
                                      " is in use or does not exist; there are " +
                                      std::to_string(capacity()) + " blocks"});
  }
  if (files_->options().read_only && position >= existing()) return only_for_reading(*files_);
  return take(position, true);
}

void FileBackend::release(Block block) {
  const std::lock_guard lock(mutex_);
  positions_.give(block.position);
}

bool FileBackend::any_held(const BlockFile& file) const {
  for (uint32_t position = file.first; position < file.first + file.blocks; ++position) {
    if (positions_.held(position)) return true;
  }
  return false;
}

Result<uint32_t> FileBackend::trim() {
  const std::lock_guard fencing(fence_mutex_);
  const std::lock_guard lock(mutex_);
  if (files_->options().read_only) return only_for_reading(*files_);
  const uint32_t before = existing();
  while (files_->count() > 1) {
    const uint32_t index = files_->count() - 1;
    const BlockFile& last = files_->file(index);
    if (any_held(last) || !detach(index)) break;
    // Of blocks that were released before they were written out.
    queue_.drop(last.first * uint64_t{block_bytes()},
                (uint64_t{last.first} + last.blocks) * block_bytes());
    if (auto removed = files_->remove_last(); !removed) return fail(removed.error());
  }
  return before - existing();
}

// One at a time: a second one must not return before the first has written what it took. Nor may a
// later one say that all is durable if this one ran out of memory with what it had taken.
Result<void> FileBackend::fence() {
  const std::lock_guard lock(fence_mutex_);
  if (failure_) return fail(*failure_);
  return write_queue();
}

Result<void> FileBackend::fence_after_failure() {
  const std::lock_guard lock(fence_mutex_);
  return write_queue();
}

Result<void> FileBackend::write_queue() {
  try {
    auto done = write_out(files_->split(queue_.take()));
    if (!done && !failure_) failure_ = done.error();
    return done;
  } catch (const std::bad_alloc&) {
    if (!failure_) failure_ = Error{Code::kNoMemory, "out of memory"};  // short: needs none itself
    return fail(Error{Code::kNoMemory, "out of memory"});
  }
}

Result<Block> FileBackend::take(uint32_t position, bool claimed) {
  if (auto grown = files_->grow_to(position); !grown) return fail(grown.error());
  auto memory = attach(position, claimed);
  if (!memory) return fail(memory.error());
  positions_.take(position);
  return Block{position, *memory};
}

}  // namespace verbena::medium
