// SPDX-License-Identifier: Apache-2.0
#include "store/space.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/check.h"
#include "medium/words.h"
#include "store/medium_error.h"
#include "store/space_block.h"

namespace verbena::store {
namespace {

constexpr uint64_t kLastResort = 4;   // chunks that only shrinking may have
constexpr uint64_t kEmptyBlocks = 2;  // kept before one is given back to the medium
constexpr uint64_t kFewChunks = 2;    // that a small request needs

}  // namespace

Space::Space(medium::Backend& backend, uint32_t chunks_per_block, bool logged)
    : backend_(backend),
      per_block_(chunks_per_block),
      shift_(static_cast<uint32_t>(std::countr_zero(chunks_per_block))),
      logged_(logged),
      on_demand_(backend.properties().loaded_on_demand) {
  VERBENA_CHECK(std::has_single_bit(chunks_per_block) && chunks_per_block <= 2048);
  VERBENA_CHECK(backend.block_bytes() == chunks_per_block * kChunkBytes);
}

Space::~Space() {
  for (const auto& block : held_) backend_.release(block->taken);
}

Space::Block* Space::held_block(uint64_t position) const {
  if (position >= kMaxBlocks) return nullptr;
  // Pairs with the release in adopt(): the block is whole when it can be seen.
  const Page* page = pages_[position / kPageBlocks].load(std::memory_order_acquire);
  return page == nullptr ? nullptr
                         : (*page)[position % kPageBlocks].load(std::memory_order_acquire);
}

Space::Block* Space::block(uint64_t position) const {
  Block* const found = held_block(position);
  return found != nullptr ? found : lost_.get();
}

void Space::lack() {
  if (lost_) return;
  auto made = std::make_unique<Block>();
  lost_memory_.resize(size_t{per_block_} * kChunkBytes);
  made->taken.memory = lost_memory_.data();
  // One reference each that nobody drops.
  made->references = std::make_unique<std::atomic<uint32_t>[]>(per_block_);
  for (uint32_t i = 0; i < per_block_; ++i) made->references[i] = 1;
  lost_ = std::move(made);
}

uint8_t* Space::memory(uint64_t chunk) const {
  return block_of(chunk).taken.memory + size_t{inside(chunk)} * kChunkBytes;
}

bool Space::holds(uint64_t chunk, uint32_t count) const {
  const Block* const found = block(chunk >> shift_);
  return found != nullptr && !found->log && count <= per_block_ - inside(chunk);
}

Result<void> Space::load_slowly(uint64_t chunk, uint32_t count) const {
  if (lacks(chunk)) return {};
  if (const auto done = backend_.load(memory(chunk), size_t{count} * kChunkBytes); !done) {
    return fail(from_medium(done.error()));
  }
  return {};
}

Result<Space::Block*> Space::adopt(medium::Result<medium::Block> taken, bool log) {
  if (!taken) return fail(from_medium(taken.error()));
  const uint32_t position = taken->position;
  if (position >= kMaxBlocks) {
    backend_.release(*taken);
    return fail(Error{Code::kFull, "the store has 4194304 blocks, which is the maximum", {}});
  }
  try {
    auto made = std::make_unique<Block>();
    if (!log) made->references = std::make_unique<std::atomic<uint32_t>[]>(per_block_);
    held_.reserve(held_.size() + 1);
    auto& page = pages_[position / kPageBlocks];
    if (page.load(std::memory_order_relaxed) == nullptr) {
      page_memory_.push_back(std::make_unique<Page>());
      page.store(page_memory_.back().get(), std::memory_order_release);
    }
    made->taken = *taken;
    made->log = log;
    made->held_at = held_.size();
    Block* const block = made.get();
    held_.push_back(std::move(made));
    (*page.load(std::memory_order_relaxed))[position % kPageBlocks].store(
        block, std::memory_order_release);
    ++(log ? log_blocks_ : data_blocks_);
    if (!log) {
      for (uint32_t word = 0; word < (per_block_ + 63) / 64; ++word) {
        block->free[word] = per_block_ < 64 ? (uint64_t{1} << per_block_) - 1 : ~uint64_t{0};
      }
      block->free_count = per_block_;
      free_ += per_block_;
      ++empty_blocks_;
      link(*block);
    }
    return block;
  } catch (...) {
    backend_.release(*taken);
    throw;
  }
}

void Space::unhold(Block& block) {
  const uint32_t position = block.taken.position;
  look_from_ = std::min(look_from_, position);
  (*pages_[position / kPageBlocks].load(std::memory_order_relaxed))[position % kPageBlocks].store(
      nullptr, std::memory_order_release);
  backend_.release(block.taken);
  const size_t at = block.held_at;
  std::swap(held_[at], held_.back());
  held_[at]->held_at = at;
  held_.pop_back();
}

// The ring of data blocks with free chunks.
void Space::link(Block& block) {
  if (open_ == nullptr) {
    open_ = block.next = block.previous = &block;
    return;
  }
  block.next = open_;
  block.previous = open_->previous;
  block.previous->next = &block;
  open_->previous = &block;
}

void Space::unlink(Block& block) {
  if (open_ == &block) open_ = block.next == &block ? nullptr : block.next;
  block.previous->next = block.next;
  block.next->previous = block.previous;
  block.next = block.previous = nullptr;
}

// Chunks of a block that are free from now on, and those that are not.
void Space::more_free(Block& block, uint32_t chunks) {
  if (!block.left && block.free_count == 0) link(block);
  block.free_count += chunks;
  (block.left ? left_free_ : free_) += chunks;
  if (!block.left && block.free_count == per_block_) ++empty_blocks_;
}

void Space::less_free(Block& block, uint32_t chunks) {
  if (!block.left && block.free_count == per_block_) --empty_blocks_;
  block.free_count -= chunks;
  (block.left ? left_free_ : free_) -= chunks;
  if (!block.left && block.free_count == 0) unlink(block);
}

void Space::leave(Block& block, bool left) {
  if (block.left == left) return;
  const uint32_t free = block.free_count;
  if (free > 0) less_free(block, free);
  block.left = left;
  if (free > 0) more_free(block, free);
}

void Space::leave_from(uint32_t limit) {
  const ShortLock lock(mutex_);
  leave_from_locked(limit);
}

void Space::leave_from_locked(uint32_t limit) {
  left_from_ = limit;
  look_from_ = 0;
  for (size_t i = held_.size(); i-- > 0;) {
    Block& block = *held_[i];
    if (block.log) continue;
    leave(block, limit > 0 && block.taken.position >= limit);
    if (block.left) give_up_empty(block);
  }
}

bool Space::adopt_before_left() {
  for (; look_from_ < left_from_; ++look_from_) {
    if (held_block(look_from_) != nullptr || !backend_.has(look_from_)) continue;
    if (adopt(backend_.claim(look_from_), false)) return true;
  }
  return false;
}

Result<void> Space::make_room(uint64_t want, Purpose purpose) {
  const uint64_t kept = purpose == Purpose::kGrow ? kLastResort : 0;
  // What can never fit is refused before the medium has grown for it.
  const uint64_t blocks = std::min(backend_.capacity(), kPages * kPageBlocks);
  const uint64_t held = data_blocks_ + log_blocks_;
  const uint64_t most = free_ + left_free_ + ((blocks > held ? blocks - held : 0) << shift_);
  if (want + kept > most) {
    return fail(Error{
        Code::kFull,
        fmt::format("the write needs {}, and {} are free", medium::size_text(want * kDataBytes),
                    medium::size_text((most > kept ? most - kept : 0) * kDataBytes)),
        {}});
  }
  while (free_ < want + kept) {
    if (left_from_ > 0) {
      if (!adopt_before_left()) leave_from_locked(0);
      continue;
    }
    const auto more = adopt(backend_.allocate(), false);
    if (!more) return fail(more.error());
  }
  return {};
}

Result<void> Space::allocate(uint64_t want, std::vector<Piece>& pieces, Purpose purpose) {
  const ShortLock lock(mutex_);
  if (!logged_ && want <= kFewChunks && take_warm(want, pieces)) return {};
  // A piece is at least a chunk; most are far longer.
  pieces.reserve(pieces.size() + std::min<uint64_t>(want, 64));
  if (const auto room = make_room(want, purpose); !room) return room;
  const size_t before = pieces.size();
  try {
    while (want > 0) take_from(*open_, want, pieces);
  } catch (...) {
    for (size_t i = before; i < pieces.size(); ++i) free_again(pieces[i]);
    pieces.resize(before);
    throw;
  }
  if (free_ < per_block_) low_.store(true, std::memory_order_relaxed);
  return {};
}

void Space::grow() {
  if (!low()) return;
  {
    const ShortLock lock(mutex_);
    if (left_from_ > 0) {
      low_.store(false, std::memory_order_relaxed);
      if (!adopt_before_left()) leave_from_locked(0);
      return;
    }
  }
  // Files grow now, without the lock.
  auto more = backend_.allocate();
  const ShortLock lock(mutex_);
  low_.store(false, std::memory_order_relaxed);
  if (more) static_cast<void>(adopt(std::move(more), false));
}

Result<void> Space::allocate_below(uint32_t limit, uint32_t* from, uint64_t want,
                                   std::vector<Piece>& pieces) {
  const ShortLock lock(mutex_);
  const size_t before = pieces.size();
  pieces.reserve(before + want);  // at most
  for (; want > 0 && *from < limit; ++*from) {
    Block* found = held_block(*from);
    if (found == nullptr && backend_.has(*from)) {
      // One that cannot be had is on its way back to the medium.
      const auto more = adopt(backend_.claim(*from), false);
      if (more) found = *more;
    }
    if (found == nullptr || found->log) continue;
    while (want > 0 && found->free_count > 0) take_from(*found, want, pieces);
    if (want == 0) break;
  }
  if (want == 0) return {};
  for (size_t i = before; i < pieces.size(); ++i) free_again(pieces[i]);
  pieces.resize(before);
  return fail(Error{Code::kFull, "no space before the end", {}});
}

// Chunks that were given back just now, if there are enough: they are in the cache still. Not where
// there is a log, for it keeps them long enough to be cold.
bool Space::take_warm(uint64_t want, std::vector<Piece>& pieces) {
  const size_t before = pieces.size();
  if (free_ < want + kLastResort) return false;
  pieces.reserve(before + want);
  for (; want > 0 && warm_count_ > 0; --want) {
    const uint64_t chunk = warm_[--warm_count_];
    Block* const found = block(chunk >> shift_);
    // It may have been taken since, or its block given back.
    if (found == nullptr || found->log || !is_set(found->free, inside(chunk))) {
      ++want;
      continue;
    }
    clear(found->free, inside(chunk));
    found->references[inside(chunk)].store(1, std::memory_order_relaxed);
    less_free(*found, 1);
    pieces.push_back({chunk, 1});
  }
  if (want == 0) return true;
  for (size_t i = before; i < pieces.size(); ++i) free_again(pieces[i]);
  pieces.resize(before);
  return false;
}

// The first run of free chunks in the block, as long as wanted at most.
void Space::take_from(Block& block, uint64_t& want, std::vector<Piece>& pieces) {
  uint32_t word = 0;
  while (block.free[word] == 0) ++word;
  const auto first = word * 64 + static_cast<uint32_t>(std::countr_zero(block.free[word]));
  pieces.push_back({(uint64_t{block.taken.position} << shift_) + first, 0});
  uint32_t end = first;
  while (end < per_block_ && end - first < want) {
    const uint64_t rest = block.free[end / 64] >> (end % 64);
    const auto run =
        std::min({static_cast<uint32_t>(std::countr_one(rest)), 64 - end % 64,
                  static_cast<uint32_t>(std::min<uint64_t>(want - (end - first), 64))});
    if (run == 0) break;
    const uint64_t mask = (run == 64 ? ~uint64_t{0} : (uint64_t{1} << run) - 1) << (end % 64);
    block.free[end / 64] &= ~mask;
    end += run;
  }
  for (uint32_t i = first; i < end; ++i) {
    block.references[i].store(1, std::memory_order_relaxed);
  }
  pieces.back().count = end - first;
  want -= end - first;
  less_free(block, end - first);
}

// Chunks nobody refers to are free: those of the words [word, end).
void Space::put_back(Block& block, const uint64_t* bits, uint32_t word, uint32_t end) {
  uint32_t added = 0;
  for (; word < end; ++word) {
    block.free[word] |= bits[word];
    added += static_cast<uint32_t>(std::popcount(bits[word]));
  }
  if (added > 0) more_free(block, added);
}

void Space::give_up_empty(Block& block) {
  if (block.free_count < per_block_ || block.pending) return;
  if (block.left || empty_blocks_ > kEmptyBlocks) give_up(block);
}

// One of data, all of whose chunks are free.
void Space::give_up(Block& block) {
  less_free(block, per_block_);
  --data_blocks_;
  unhold(block);
}

void Space::free_again(const Piece& piece) {
  Block& block = block_of(piece.chunk);
  Bits bits{};
  for (uint32_t i = inside(piece.chunk); i < inside(piece.chunk) + piece.count; ++i) {
    block.references[i].store(0, std::memory_order_relaxed);
    set(bits, i);
  }
  put_back(block, bits.data(), 0, kMaxWords);
}

void Space::give_back(const Piece& piece) {
  const ShortLock lock(mutex_);
  free_again(piece);
  give_up_empty(block_of(piece.chunk));
}

void Space::add(uint64_t chunk, uint32_t count) {
  Block& block = block_of(chunk);
  for (uint32_t i = 0; i < count; ++i) {
    block.references[inside(chunk) + i].fetch_add(1, std::memory_order_relaxed);
  }
}

void Space::drop(uint64_t chunk, uint32_t count) {
  Block& block = block_of(chunk);
  const uint32_t first = inside(chunk);
  const uint32_t word = first / 64;
  const uint32_t end = (first + count - 1) / 64 + 1;
  std::array<uint64_t, kMaxWords> gone;  // of which only these words are used
  std::fill(gone.begin() + word, gone.begin() + end, 0);
  uint64_t sum = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    if (block.references[i].fetch_sub(1, std::memory_order_acq_rel) == 1) {
      set(gone, i);
      ++sum;
    }
  }
  if (sum == 0) return;
  const ShortLock lock(mutex_);
  if (!logged_) {
    put_back(block, gone.data(), word, end);
    if (count <= kFewChunks && sum == count) {
      if (warm_count_ + count > kWarm) {
        std::copy(warm_.begin() + kWarm / 2, warm_.begin() + warm_count_, warm_.begin());
        warm_count_ -= kWarm / 2;
      }
      for (uint32_t i = 0; i < count; ++i) warm_[warm_count_++] = chunk + i;
    }
    give_up_empty(block);
    return;
  }
  for (uint32_t i = word; i < end; ++i) block.young[i] |= gone[i];
  young_ += sum;
  if (!block.pending) {
    block.pending = true;
    block.next_pending = pending_;
    pending_ = &block;
  }
}

bool Space::any_shared(uint64_t chunk, uint32_t count) const {
  const Block& block = block_of(chunk);
  for (uint32_t i = 0; i < count; ++i) {
    if (block.references[inside(chunk) + i].load(std::memory_order_relaxed) > 1) return true;
  }
  return false;
}

Result<void> Space::claim_data(uint32_t position) {
  const ShortLock lock(mutex_);
  if (held_block(position) != nullptr || is_lost(position)) return {};
  const auto taken = adopt(backend_.claim(position), false);
  if (!taken) return fail(taken.error());
  return {};
}

void Space::count(uint64_t chunk, uint32_t count) {
  const ShortLock lock(mutex_);
  Block& block = block_of(chunk);
  for (uint32_t i = inside(chunk); i < inside(chunk) + count; ++i) {
    if (block.references[i].fetch_add(1, std::memory_order_relaxed) > 0) continue;
    if (block.free_count-- == per_block_) --empty_blocks_;
    --free_;
    clear(block.free, i);
  }
  if (block.free_count == 0 && block.next != nullptr) unlink(block);
}

Result<uint8_t*> Space::claim_log(uint32_t position) {
  const ShortLock lock(mutex_);
  if (const Block* const there = held_block(position)) return there->taken.memory;
  if (is_lost(position)) return lost_->taken.memory;
  const auto taken = adopt(backend_.claim(position), true);
  if (!taken) return fail(taken.error());
  return (*taken)->taken.memory;
}

Result<medium::Block> Space::allocate_log() {
  const ShortLock lock(mutex_);
  auto taken = adopt(backend_.allocate(), true);
  // One of data that is empty will do.
  for (size_t i = 0; !taken && taken.error().code == Code::kFull && i < held_.size(); ++i) {
    Block& block = *held_[i];
    if (block.log || block.free_count < per_block_ || block.pending) continue;
    less_free(block, per_block_);
    --data_blocks_;
    ++log_blocks_;
    block.log = true;
    block.left = false;
    return block.taken;
  }
  if (!taken) return fail(taken.error());
  return (*taken)->taken;
}

void Space::release_log(uint32_t position) {
  const ShortLock lock(mutex_);
  --log_blocks_;
  unhold(*block(position));
}

Space::Numbers Space::numbers() const {
  const ShortLock lock(mutex_);
  Numbers numbers;
  numbers.log = log_blocks_ << shift_;
  numbers.capacity =
      (uint64_t{std::min(backend_.capacity(), kPages * kPageBlocks)} << shift_) - numbers.log;
  numbers.pending = young_ + sealed_ + old_ + covered_;
  numbers.used = (data_blocks_ << shift_) - free_ - left_free_ - numbers.pending;
  return numbers;
}

}  // namespace verbena::store
