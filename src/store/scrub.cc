// SPDX-License-Identifier: Apache-2.0
// Verifies a store while it works: every live chunk, once, and both copies of log and checkpoint,
// as the medium has them. What is looked at is pinned, so that it stays what it is.
#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include "store/chunk_check.h"
#include "store/log_reader.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr uint32_t kBatch = 256;  // chunks read at once

struct FreeAligned {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<uint8_t, FreeAligned>;

}  // namespace

class StoreImpl::Scrub {
 public:
  Scrub(StoreImpl& store, const Progress& progress)
      : store_(store),
        progress_(progress),
        buffer_(
            static_cast<uint8_t*>(std::aligned_alloc(kChunkBytes, size_t{kBatch} * kChunkBytes))) {}

  Result<ScrubReport> run() {
    if (!buffer_) return fail(Error{Code::kNoMemory, "out of memory", {}});
    all_ = store_.space_.numbers().used;
    std::optional<Cursor> after;
    for (;;) {
      const auto page = store_.catalog_.page(after, 64);
      for (const ObjectRef& object : page) {
        if (const auto done = scrub_object(*object); !done) return fail(done.error());
      }
      if (page.size() < 64) break;
      after = Cursor{store_.catalog_.name_of(*page.back()), page.back()->id};
    }
    if (const auto done = scrub_log(); !done) return fail(done.error());
    report_.past_cache = store_.backend_->reads_past_cache();
    return std::move(report_);
  }

 private:
  // Runs of a part of an object, pinned.
  class Pinned {
   public:
    Pinned(Space& space, const Object& object, uint64_t from) : space_(space) {
      runs.reserve(kBatch);
      const std::shared_lock lock(object.lock);
      object.table.for_each(from, kMaxIndex, [&](const Run& run) {
        if (runs.size() == kBatch) return false;
        space_.add(run.chunk, run.count);
        runs.push_back(run);
        return true;
      });
    }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    ~Pinned() {
      for (const Run& run : runs) space_.drop(run.chunk, run.count);
    }
    std::vector<Run> runs;

   private:
    Space& space_;
  };

  Result<void> scrub_object(const Object& object) {
    for (uint64_t from = 0;;) {
      const Pinned pinned(store_.space_, object, from);
      if (pinned.runs.empty()) return {};
      // What is not durable yet may not be on the medium.
      if (const auto done = store_.flush(); !done && done.error().code != Code::kReadOnly) {
        return done;
      }
      for (const Run& run : pinned.runs) {
        if (const auto done = scrub_run(object, run); !done) return done;
      }
      from = pinned.runs.back().index + pinned.runs.back().count;
      if (pinned.runs.size() < kBatch) return {};
    }
  }

  Result<void> scrub_run(const Object& object, const Run& run) {
    for (uint32_t done = 0; done < run.count;) {
      const uint32_t count = std::min(kBatch, run.count - done);
      if (!seen(run.chunk + done, count)) {
        if (const auto read = fetch(run.chunk + done, count); !read) return read;
        for (uint32_t i = 0; i < count; ++i) {
          const uint8_t* const chunk = buffer_.get() + size_t{i} * kChunkBytes;
          ++report_.chunks;
          const auto bad = find_damage(chunk, object.id, run, done + i, store_.tag_);
          if (bad) note(*bad);
        }
        if (progress_ && !progress_(report_.chunks, all_)) return stopped();
      }
      done += count;
    }
    return {};
  }

  // Whether all of these were looked at before: chunks that objects share are, once. Marks them.
  bool seen(uint64_t chunk, uint32_t count) {
    bool all = true;
    if (seen_.size() < chunk + count) seen_.resize(chunk + count);
    for (uint64_t i = chunk; i < chunk + count; ++i) {
      all = all && seen_[i];
      seen_[i] = true;
    }
    return all;
  }

  Result<void> fetch(uint64_t chunk, uint32_t count) {
    const uint32_t per_block = store_.space_.chunks_per_block();
    const auto read = store_.backend_->read_medium(static_cast<uint32_t>(chunk / per_block),
                                                   chunk % per_block * kChunkBytes,
                                                   {buffer_.get(), size_t{count} * kChunkBytes});
    report_.bytes += size_t{count} * kChunkBytes;
    if (!read) return fail(Error{Code::kIo, read.error().what, {}});
    return {};
  }

  // Log, checkpoint and superblocks, which do not change while the log's locks are held.
  Result<void> scrub_log() {
    Superblock root = store_.root_;
    uint64_t end = UINT64_MAX;
    std::unique_ptr<Log::Hold> hold;
    if (store_.log_) {
      if (const auto done = store_.log_->flush(); !done) return done;
      hold = store_.log_->hold();
      root = hold->root;
      end = hold->end;
    }
    for (const uint64_t chunk : {uint64_t{0}, uint64_t{root.chunks_per_block}}) {
      if (const auto read = fetch(chunk, 1); !read) return read;
      ++report_.log_chunks;
      if (!decode_superblock(std::span<const uint8_t, kChunkBytes>(buffer_.get(), kChunkBytes))) {
        note({{}, 0, chunk, "superblock", "a superblock", "something else"});
      }
    }
    if (const auto done = scrub_extents(root, root.checkpoint, kFlagCheckpoint, UINT64_MAX);
        !done) {
      return done;
    }
    return scrub_extents(root, root.log, kFlagLog, end);
  }

  Result<void> scrub_extents(const Superblock& root, std::span<const Extent> extents, uint16_t flag,
                             uint64_t end) {
    Result<void> result;
    // One chunk at a time, each through the same buffer.
    const auto memory = [&](uint64_t chunk) -> const uint8_t* {
      if (const auto read = fetch(chunk, 1); !read) {
        result = read;
        return nullptr;
      }
      ++report_.log_chunks;
      return buffer_.get();
    };
    for (const Extent& extent : extents) {
      for (uint32_t i = 0; i < extent.count && extent.sequence + i < end; ++i) {
        Extent one = extent;
        one.first = static_cast<uint16_t>(one.first + i);
        one.count = 1;
        one.sequence += i;
        const auto found = read_extents(root, {&one, 1}, flag, memory);
        if (!result) return result;
        const char* const which = flag == kFlagLog ? "log" : "checkpoint";
        // Of a store that is only read, nobody knows where the log ends: with its first gap.
        if (end == UINT64_MAX && flag == kFlagLog && found[0].good == nullptr) return {};
        if (!found[0].a) note(log_damage(which, found[0].chunk_a, one.sequence));
        if (!found[0].b) note(log_damage(which, found[0].chunk_b, one.sequence));
      }
    }
    return {};
  }

  void note(Damage damage) {
    ++report_.damaged;
    if (report_.damage.size() < ScrubReport::kMaxDamage)
      report_.damage.push_back(std::move(damage));
  }
  static Result<void> stopped() { return fail(Error{Code::kInvalid, "stopped", {}}); }

  StoreImpl& store_;
  const Progress& progress_;
  Buffer buffer_;
  std::vector<bool> seen_;
  ScrubReport report_;
  uint64_t all_ = 0;
};

Result<ScrubReport> StoreImpl::scrub(const Progress& progress) {
  try {
    return Scrub(*this, progress).run();
  } catch (const std::bad_alloc&) {
    return fail(Error{Code::kNoMemory, "out of memory", {}});
  }
}

}  // namespace verbena::store
