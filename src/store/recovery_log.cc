// SPDX-License-Identifier: Apache-2.0
// Opening a store again: what its log has, and of what came last the data as well.
#include <algorithm>

#include <fmt/format.h>

#include "store/chunk_check.h"
#include "store/partial_replay.h"
#include "store/recovery.h"

namespace verbena::store {

Result<void> StoreImpl::Recovery::apply(const Record& record, const LogChunk& chunk) {
  if (partial()) {
    PartialReplay(replay_, report_.lost).apply(record);
    return {};
  }
  const auto applied = replay_.apply(record);
  return applied ? Result<void>{}
                 : fail(refused("the log", chunk.sequence, chunk.chunk_a, applied.error()));
}
// Both copies are valid, and say different things: nobody knows which is right. Or one was put
// there from another history of the store.
Result<void> StoreImpl::Recovery::check_origin(const LogChunk& chunk) {
  if (chunk.differ) {
    return fail(damaged_log(fmt::format("the copies of chunk {} of the {} are different",
                                        chunk.number(), chunk.which()),
                            copies_damage(chunk)));
  }
  if (chunk.good == nullptr && (chunk.foreign_a || chunk.foreign_b)) {
    return fail(damaged_log(fmt::format("chunk {} of the {} is from another history of the store",
                                        chunk.number(), chunk.which()),
                            copy_damage(chunk, !chunk.foreign_a)));
  }
  return {};
}

// Whether there is one good copy. Of two, one that is not is worth saying.
Result<void> StoreImpl::Recovery::check_copies(const LogChunk& chunk) {
  if (const auto done = check_origin(chunk); !done) return done;
  if (!chunk.a || !chunk.b) irregular_ = true;
  if (chunk.good == nullptr) {
    return fail(
        damaged_log(fmt::format("chunk {} of the {} is not valid", chunk.number(), chunk.which()),
                    copy_damage(chunk, false)));
  }
  if (!chunk.a) report_.damage.push_back(copy_damage(chunk, false));
  if (!chunk.b) report_.damage.push_back(copy_damage(chunk, true));
  return {};
}

void StoreImpl::Recovery::note_lost(const LogChunk& chunk) {
  for (const bool copy_b : {false, true}) {
    report_.lost.chunks.push_back(copy_damage(chunk, copy_b));
  }
}

Error StoreImpl::Recovery::bad_record(const LogChunk& chunk, RecordFault fault) {
  return damaged_log(
      fmt::format("record in chunk {} of the log is not valid: {}", chunk.sequence, name_of(fault)),
      log_damage("record", chunk.chunk_a, chunk.sequence));
}

Result<void> StoreImpl::Recovery::read_log() {
  log_ = read_extents(root_, root_.log, kFlagLog, memory_);
  // Behind the end of a log that was closed there is nothing.
  if (root_.closed()) {
    std::erase_if(log_, [this](const LogChunk& chunk) { return chunk.sequence >= root_.end; });
  }
  watermark_ = roots_.closed ? root_.end - 1 : find_watermark(root_, log_);
  next_ = root_.replay_from;
  bool ended = false;
  for (const LogChunk& chunk : log_) {
    if (chunk.sequence < root_.replay_from) continue;
    if (chunk.sequence <= watermark_) {
      if (chunk.sequence != next_ && !partial()) return fail(missing(next_));
      if (chunk.sequence != next_) lose_log(chunk.sequence);
      const auto there = check_copies(chunk);
      if (!there && !partial()) return there;
      if (!there) {
        note_lost(chunk);
        lose_log(chunk.sequence + 1);
        continue;
      }
    } else if (const auto done = check_tail(chunk); !done) {
      return done;
    }
    if (chunk.good != nullptr) seen_ = std::max(seen_, chunk.sequence);
    // Of what comes behind the end nothing counts; but it was written, and is not written again.
    if (ended || chunk.good == nullptr || chunk.sequence != next_) {
      ended = true;
      continue;
    }
    const auto all = replay_chunk(chunk);
    if (!all) return fail(all.error());
    if (!*all) ended = true;
    next_ = chunk.sequence + 1;
    ++report_.log_chunks;
  }
  if (next_ <= watermark_ && !partial()) return fail(missing(next_));
  if (next_ <= watermark_) lose_log(std::max(watermark_, watermark_ + 1));
  // A transaction that reaches into a chunk that is not there.
  if (!pending_.empty()) {
    irregular_ = true;
    if (report_.dropped_transactions == 0) report_.dropped_transactions = 1;
  }
  if (seen_ >= next_) irregular_ = true;
  next_ = std::max(next_, seen_ + 1);
  report_.clean = roots_.closed;
  return {};
}

// For salvage: goes on with this chunk. What began before it cannot be finished.
void StoreImpl::Recovery::lose_log(uint64_t sequence) {
  IndexLoss& lost = report_.lost;
  if (lost.log.empty()) {
    lost.from_txn = std::max(last_txn_, root_.log.empty() ? 0 : root_.log.front().txn);
  }
  lost.log.push_back({next_, sequence});
  next_ = sequence;
  lost.unknown.push_back({replay_.next_number(), kEveryNumber});
  for (const Record& record : pending_) PartialReplay(replay_, lost).drop(record);
  pending_.clear();
}

Error StoreImpl::Recovery::missing(uint64_t sequence) {
  return damaged_log(fmt::format("chunk {} of the log is missing", sequence),
                     log_damage("log", 0, sequence));
}

// Past the watermark a crash may have left one copy, or none; but not one of another history.
Result<void> StoreImpl::Recovery::check_tail(const LogChunk& chunk) {
  if (const auto done = check_origin(chunk); !done) return done;
  if (chunk.foreign_a) {
    report_.damage.push_back(copy_damage(chunk, false));
  }
  if (chunk.foreign_b) {
    report_.damage.push_back(copy_damage(chunk, true));
  }
  if (chunk.a != chunk.b) irregular_ = true;
  return {};
}

// False: what follows is not on the medium.
Result<bool> StoreImpl::Recovery::replay_chunk(const LogChunk& chunk) {
  RecordReader reader(chunk.records());
  bool bare = false;
  while (!reader.done()) {
    const auto record = reader.next();
    if (!record) return fail(bad_record(chunk, record.error()));
    const auto* const commit = std::get_if<CommitRecord>(&*record);
    if (commit == nullptr) {
      pending_.push_back(*record);
      continue;
    }
    bare = pending_.empty();
    if (chunk.sequence > watermark_ && !data_is_there()) {
      ++report_.dropped_transactions;
      irregular_ = true;
      pending_.clear();
      return false;
    }
    for (const Record& each : pending_) {
      if (const auto done = apply(each, chunk); !done) return fail(done.error());
    }
    pending_.clear();
    replay_.touched_at(commit->time_ns);
    last_txn_ = std::max(last_txn_, commit->txn);
  }
  // Their data would be looked at again by the next opening: what they have freed since cannot be
  // used before a checkpoint.
  if (chunk.sequence > watermark_ && !bare) irregular_ = true;
  return true;
}

// Every chunk that the transaction's MAPs name, as they name it.
bool StoreImpl::Recovery::data_is_there() {
  for (const Record& record : pending_) {
    const auto* const map = std::get_if<MapRecord>(&record);
    if (map == nullptr) continue;
    for (const Run& run : map->runs) {
      if (!run.has_chunks()) continue;
      if (!possible(run) || !is_there(run.chunk / space().chunks_per_block())) return false;
      // Behind the watermark no chunk is written twice, and few are named again: a log that names
      // many more than there are is none of ours.
      if (report_.verified_chunks >=
          4 * uint64_t{store_.backend_->existing()} * space().chunks_per_block()) {
        return false;
      }
      if (!space().claim_data(static_cast<uint32_t>(run.chunk / space().chunks_per_block()))) {
        return false;
      }
      if (!space().holds(run.chunk, run.count) || !space().load(run.chunk, run.count)) {
        return false;
      }
      for (uint32_t i = 0; i < run.count; ++i) {
        const uint8_t* const chunk = space().memory(run.chunk + i);
        ++report_.verified_chunks;
        if (!head_matches(chunk, run, i, store_.tag_) ||
            examine(as_chunk(chunk)) != ChunkVerdict::kGood) {
          return false;
        }
      }
      tail_.push_back({run.chunk, run.count});
    }
  }
  return true;
}

}  // namespace verbena::store
