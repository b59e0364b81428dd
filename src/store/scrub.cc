// SPDX-License-Identifier: Apache-2.0
// Verifies a store while it works: every live chunk, once, and both copies of log and checkpoint,
// as the medium has them. What is looked at is pinned, so that it stays what it is.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "store/chunk_check.h"
#include "store/log_reader.h"
#include "store/roots.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr uint32_t kWindow = 256;  // chunks that are read at once
constexpr uint32_t kGap = 16;      // chunks in between that are read along rather than passed over
constexpr size_t kBatch = 16'384;  // runs that are pinned at once

}  // namespace

class StoreImpl::Scrub {
  struct FreeAligned {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  using Buffer = std::unique_ptr<uint8_t, FreeAligned>;
  static Buffer make_buffer() {
    return Buffer(
        static_cast<uint8_t*>(std::aligned_alloc(kChunkBytes, size_t{kWindow} * kChunkBytes)));
  }

 public:
  Scrub(StoreImpl& store, const Progress& progress)
      : store_(store), progress_(progress), buffer_(make_buffer()), other_(make_buffer()) {
    pinned_.reserve(kBatch);
  }
  Scrub(const Scrub&) = delete;
  Scrub& operator=(const Scrub&) = delete;
  ~Scrub() { unpin(); }

  Result<ScrubReport> run() {
    if (!buffer_ || !other_) return fail(Error{Code::kNoMemory, "out of memory", {}});
    all_ = store_.space_.numbers().used;
    std::optional<Cursor> after;
    for (;;) {
      const auto page = store_.catalog_.page(after, 64, &after);
      for (const ObjectRef& object : page) {
        if (const auto done = add_object(*object); !done) return fail(done.error());
      }
      if (page.size() < 64) break;
    }
    if (const auto done = verify_pinned(); !done) return fail(done.error());
    if (const auto done = scrub_log(); !done) return fail(done.error());
    report_.past_cache = store_.backend_->reads_past_cache();
    return std::move(report_);
  }

 private:
  // A run of an object, kept as it is while it is looked at.
  struct Pinned {
    Run run;
    ObjectId object;
  };

  Result<void> add_object(const Object& object) {
    for (uint64_t from = 0;;) {
      bool more = false;
      {
        const ReadLock lock(object.lock);
        if (const auto sound = check_content(object); !sound) note(sound.error().damage);
        object.table.for_each(from, kMaxIndex, [&](const Run& run) {
          more = pinned_.size() == kBatch;
          if (more) return false;
          store_.space_.add(run.chunk, run.count);
          pinned_.push_back({run, object.id});
          from = run.index + run.count;
          return true;
        });
      }
      if (!more) return {};
      if (const auto done = verify_pinned(); !done) return done;
    }
  }

  void unpin() {
    for (const Pinned& each : pinned_) store_.space_.drop(each.run.chunk, each.run.count);
    pinned_.clear();
  }

  // In the order in which they lie on the medium, many at once.
  Result<void> verify_pinned() {
    // What is not durable yet may not be there.
    if (const auto done = store_.flush(); !done && done.error().code != Code::kReadOnly) {
      return done;
    }
    std::ranges::sort(pinned_, {}, [](const Pinned& each) { return each.run.chunk; });
    const uint32_t per_block = store_.space_.chunks_per_block();
    for (size_t i = 0; i < pinned_.size();) {
      const uint64_t first = pinned_[i].run.chunk;
      const uint64_t block_end = (first / per_block + 1) * per_block;
      uint64_t end = first + pinned_[i].run.count;
      size_t next = i + 1;
      while (next < pinned_.size() && pinned_[next].run.chunk <= end + kGap &&
             pinned_[next].run.chunk < block_end) {
        end = std::max(end, pinned_[next].run.chunk + pinned_[next].run.count);
        ++next;
      }
      const auto done = verify_range(first, end, std::span(pinned_).subspan(i, next - i));
      if (!done) return done;
      i = next;
    }
    unpin();
    return {};
  }

  // Runs that lie in chunks [first, end) of a block.
  Result<void> verify_range(uint64_t first, uint64_t end, std::span<const Pinned> pinned) {
    if (seen_.size() < end) seen_.resize(std::max<size_t>(end, seen_.size() * 2));
    for (; first < end; first += kWindow) {
      const uint64_t stop = std::min<uint64_t>(end, first + kWindow);
      fetch(first, static_cast<uint32_t>(stop - first), buffer_);
      for (const Pinned& each : pinned) {
        const uint64_t from = std::max(first, each.run.chunk);
        const uint64_t to = std::min(stop, each.run.chunk + each.run.count);
        for (uint64_t chunk = from; chunk < to; ++chunk) {
          // Chunks that objects share are looked at once.
          if (seen_[chunk]) continue;
          seen_[chunk] = true;
          ++report_.chunks;
          if (store_.space_.lacks(chunk)) {
            note(lost_damage(each.object, each.run, static_cast<uint32_t>(chunk - each.run.chunk)));
            continue;
          }
          const auto bad =
              find_damage(buffer_.get() + (chunk - first) * kChunkBytes, each.object, each.run,
                          static_cast<uint32_t>(chunk - each.run.chunk), store_.tag_);
          if (bad) note(*bad);
        }
      }
      if (progress_ && !progress_(report_.chunks, std::max(all_, report_.chunks))) {
        return fail(Error{Code::kInvalid, "stopped", {}});
      }
    }
    return {};
  }

  void fetch(uint64_t chunk, uint32_t count, const Buffer& to) {
    if (store_.space_.lacks(chunk)) {
      std::memset(to.get(), 0, size_t{count} * kChunkBytes);
      return;
    }
    const uint32_t per_block = store_.space_.chunks_per_block();
    const auto read = [&](uint32_t first, uint32_t chunks) {
      return store_.backend_
          ->read_medium(static_cast<uint32_t>(chunk / per_block),
                        (chunk % per_block + first) * kChunkBytes,
                        {to.get() + size_t{first} * kChunkBytes, size_t{chunks} * kChunkBytes})
          .has_value();
    };
    report_.bytes += size_t{count} * kChunkBytes;
    if (read(0, count)) return;
    // What the medium does not give is as good as damaged, and the rest is to be looked at.
    for (uint32_t i = 0; i < count; ++i) {
      if (!read(i, 1)) std::memset(to.get() + size_t{i} * kChunkBytes, 0, kChunkBytes);
    }
  }

  // Superblocks, checkpoint and log. The log goes on between one window and the next; in one it
  // stands still.
  Result<void> scrub_log() {
    if (!store_.persistent_) return {};
    if (store_.log_) {
      if (const auto done = store_.log_->flush(); !done) return done;
    }
    Superblock root;
    {
      const Held held = held_root();
      root = held.root;
      scrub_roots(root);
    }
    for (const Extent& extent : root.checkpoint) {
      if (const auto done = scrub_extent(extent, kFlagCheckpoint); !done) return done;
    }
    for (const Extent& extent : root.log) {
      if (const auto done = scrub_extent(extent, kFlagLog); !done) return done;
    }
    return {};
  }

  // Of a store that is only read, a crash may have interrupted the writing of a copy, and its owner
  // may have written newer ones since. In one of ours a failed sync is an interruption, too.
  void scrub_roots(const Superblock& root) {
    for (const uint32_t block : {1, 0}) {
      const uint64_t chunk = uint64_t{block} * root.chunks_per_block;
      fetch(chunk, 1, buffer_);
      ++report_.log_chunks;
      const std::span<const uint8_t, kChunkBytes> copy(buffer_.get(), kChunkBytes);
      const auto there = read_root(copy, block);
      const RootCopy state = judge_copy(copy, block, root);
      if (state == RootCopy::kCurrent) continue;
      const bool newer = there && there->generation > root.generation &&
                         store_.root_copies_[block] != RootCopy::kElsewhere;
      if (!store_.log_ && (state == RootCopy::kBeside || newer)) continue;
      if (store_.persist_.failed() && state == RootCopy::kBeside) continue;
      if (!store_.log_ && state == RootCopy::kTorn) {
        report_.incomplete.push_back(root_damage(chunk, state));
      } else {
        note(root_damage(chunk, state));
      }
    }
  }

  struct Held {
    std::unique_ptr<Log::Hold> hold;  // none where the store is only read
    const Superblock& root;
    std::optional<uint64_t> end;  // of the log, if it is known
  };
  [[nodiscard]] Held held_root() {
    if (!store_.log_) {
      const Superblock& root = store_.root_;
      return {nullptr, root, root.closed() ? std::optional(root.end) : std::nullopt};
    }
    auto hold = store_.log_->hold();
    const Superblock& root = hold->root;
    const uint64_t end = hold->end;
    return {std::move(hold), root, end};
  }

  // Whether this part of the log, or of the checkpoint, is still where it was.
  [[nodiscard]] static bool names(const Superblock& root, const Extent& part, uint16_t flag) {
    return std::ranges::any_of(flag == kFlagLog ? root.log : root.checkpoint, [&](const Extent& e) {
      return e.block_a == part.block_a && e.block_b == part.block_b && e.txn == part.txn &&
             e.sequence <= part.sequence && part.sequence + part.count <= e.sequence + e.count &&
             e.first + (part.sequence - e.sequence) == part.first;
    });
  }

  // Both copies, side by side. Where a store that is only read was not closed, its log ends past
  // the watermark with the first chunk of which there is no copy.
  Result<void> scrub_extent(const Extent& extent, uint16_t flag) {
    for (uint32_t i = 0; i < extent.count; i += kWindow) {
      Extent part = extent;
      part.first = static_cast<uint16_t>(part.first + i);
      part.count = static_cast<uint16_t>(std::min<uint32_t>(kWindow, extent.count - i));
      part.sequence += i;
      const Held held = held_root();
      if (flag == kFlagLog && held.end) {
        if (part.sequence >= *held.end) return {};
        part.count =
            static_cast<uint16_t>(std::min<uint64_t>(part.count, *held.end - part.sequence));
      }
      if (!names(held.root, part, flag)) continue;
      const uint64_t a = uint64_t{part.block_a} * held.root.chunks_per_block + part.first;
      const uint64_t b = uint64_t{part.block_b} * held.root.chunks_per_block + part.first;
      fetch(a, part.count, buffer_);
      fetch(b, part.count, other_);
      const auto memory = [&](uint64_t chunk) -> const uint8_t* {
        return chunk - a < part.count ? buffer_.get() + (chunk - a) * kChunkBytes
                                      : other_.get() + (chunk - b) * kChunkBytes;
      };
      for (const LogChunk& found : read_extents(held.root, {&part, 1}, flag, memory)) {
        const bool tail =
            !store_.log_ && flag == kFlagLog && found.sequence > store_.durable_when_opened_;
        if (tail && found.good == nullptr && !found.foreign_a && !found.foreign_b) return {};
        report_.log_chunks += 2;
        const auto check = [&](bool good, bool foreign, bool copy_b) {
          if (good) return;
          Damage bad = copy_damage(found, copy_b);
          if (tail && !foreign) {
            report_.incomplete.push_back(std::move(bad));
          } else {
            note(std::move(bad));
          }
        };
        check(found.a, found.foreign_a, false);
        check(found.b, found.foreign_b, true);
        if (found.differ) note(copies_damage(found));
      }
    }
    return {};
  }

  void note(Damage damage) {
    ++report_.damaged;
    if (report_.damage.size() < ScrubReport::kMaxDamage)
      report_.damage.push_back(std::move(damage));
  }
  StoreImpl& store_;
  const Progress& progress_;
  Buffer buffer_;
  Buffer other_;
  std::vector<Pinned> pinned_;
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
