// SPDX-License-Identifier: Apache-2.0
// Reads: chunks are verified while they are copied out, or handed out where they lie, pinned.
#include <cstring>

#include "store/chunk_check.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {

Result<size_t> StoreImpl::read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                               uint32_t* crc) const {
  const auto object = find(id);
  if (!object) return fail(object.error());
  const ReadLock lock((*object)->lock);
  if ((*object)->removed) return fail(no_such(id));
  if (crc != nullptr) *crc = crc_of_zeros(0);
  if (offset >= (*object)->size || bytes.empty()) return 0;
  const Extents range{offset, std::min<uint64_t>(bytes.size(), (*object)->size - offset)};

  if (!(*object)->content.empty()) {
    const auto part = copy_content(**object, range, bytes.data());
    if (!part) return fail(part.error());
    if (crc != nullptr) *crc = *part;
    return range.length;
  }

  uint64_t at = offset;  // how far the bytes are there
  const auto zeros_until = [&](uint64_t end) {
    if (end <= at) return;
    std::memset(bytes.data() + (at - offset), 0, end - at);
    if (crc != nullptr) *crc = crc_zeros_after(*crc, end - at);
    at = end;
  };
  Result<void> result;
  (*object)->table.for_all(range.first(), range.end(), [&](const Run& run) {
    if (!run.has_chunks()) {
      result = fail(is_behind(**object, run));
      return false;
    }
    zeros_until(std::max(offset, run.index * kDataBytes));
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint32_t from = range.from(run.index + i);
      const uint32_t to = range.to(run.index + i);
      const auto part =
          copy_out(**object, run, i, from, to, bytes.data() + (at - offset), crc != nullptr);
      if (!part) {
        result = fail(part.error());
        return false;
      }
      if (crc != nullptr) *crc = crc_join(*crc, *part, to - from);
      at += to - from;
    }
    return true;
  });
  if (!result) return fail(result.error());
  zeros_until(offset + range.length);
  return range.length;
}

struct PreparedRead::State {
  const StoreImpl* store = nullptr;
  uint64_t length = 0;
  uint32_t crc = 0;
  std::vector<Piece> pins;
  std::vector<Scatter> scatter;
  std::vector<uint8_t> content;  // of an object without chunks, copied

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const Piece& pin : pins) store->space().drop(pin.chunk, pin.count);
  }
};

PreparedRead::PreparedRead() = default;
PreparedRead::PreparedRead(PreparedRead&&) noexcept = default;
PreparedRead& PreparedRead::operator=(PreparedRead&&) noexcept = default;
PreparedRead::~PreparedRead() = default;
std::span<const Scatter> PreparedRead::pieces() const {
  return state_ ? std::span<const Scatter>(state_->scatter) : std::span<const Scatter>();
}
uint64_t PreparedRead::length() const { return state_ ? state_->length : 0; }
uint32_t PreparedRead::crc() const { return state_ ? state_->crc : crc_of_zeros(0); }

// The CRC of a chunk's data as it is stored, if the chunk is the one that belongs there. The data
// is not looked at: whoever gets it compares.
Result<uint32_t> StoreImpl::stored_crc(const Object& object, const Run& run, uint32_t i) const {
  if (const auto loaded = space_.load(run.chunk + i, 1); !loaded) return fail(loaded.error());
  const uint8_t* const chunk = space_.memory(run.chunk + i);
  const uint32_t crc = data_crc_of(chunk);
  if (!options_.checksums) return crc;
  if (expected_chunk_crc(chunk, crc) != chunk_crc_of(chunk) || !head_matches(chunk, run, i, tag_)) {
    return fail(damage(object, run, i, chunk, crc));
  }
  return crc;
}

Result<PreparedRead> StoreImpl::prepare_read(ObjectId id, uint64_t offset, uint64_t length) const {
  try {
    const auto object = find(id);
    if (!object) return fail(object.error());
    PreparedRead prepared;
    prepared.state_ = std::make_unique<PreparedRead::State>();
    auto& state = *prepared.state_;
    state.store = this;
    const ReadLock lock((*object)->lock);
    if ((*object)->removed) return fail(no_such(id));
    state.crc = crc_of_zeros(0);
    if (offset >= (*object)->size || length == 0) return prepared;
    const Extents range{offset, std::min(length, (*object)->size - offset)};
    state.length = range.length;
    if (!(*object)->content.empty()) {
      state.content.resize(range.length);
      const auto crc = copy_content(**object, range, state.content.data());
      if (!crc) return fail(crc.error());
      state.crc = *crc;
      const auto bytes = static_cast<uint32_t>(range.length);
      state.scatter.push_back({state.content.data(), bytes, bytes, 1});
      return prepared;
    }

    uint64_t at = offset;
    // So many zeros, in pieces of what a number holds.
    const auto zeros_until = [&](uint64_t end) {
      if (end > at) state.crc = crc_zeros_after(state.crc, end - at);
      constexpr uint64_t kMost = uint64_t{1} << 30;
      const auto whole = static_cast<uint32_t>(end > at ? (end - at) / kMost : 0);
      if (whole > 0) state.scatter.push_back({nullptr, kMost, 0, whole});
      at += whole * kMost;
      if (at < end) state.scatter.push_back({nullptr, static_cast<uint32_t>(end - at), 0, 1});
      at = std::max(at, end);
    };
    Result<void> result;
    std::array<uint8_t, kDataBytes> discard;
    (*object)->table.for_all(range.first(), range.end(), [&](const Run& run) {
      if (!run.has_chunks()) {
        result = fail(is_behind(**object, run));
        return false;
      }
      zeros_until(std::max(offset, run.index * kDataBytes));
      state.pins.reserve(state.pins.size() + 1);
      space_.add(run.chunk, run.count);
      state.pins.push_back({run.chunk, run.count});
      for (uint32_t i = 0; i < run.count; ++i) {
        const uint64_t index = run.index + i;
        const uint32_t from = range.from(index);
        const uint32_t to = range.to(index);
        const auto crc = range.whole(index)
                             ? stored_crc(**object, run, i)
                             : copy_out(**object, run, i, from, to, discard.data(), true);
        if (!crc) {
          result = fail(crc.error());
          return false;
        }
        state.crc = crc_join(state.crc, *crc, to - from);
        at += to - from;
        if (i > 0 && range.whole(index) && range.whole(index - 1)) {
          ++state.scatter.back().count;
          continue;
        }
        state.scatter.push_back({space_.memory(run.chunk + i) + from, to - from,
                                 static_cast<uint32_t>(kChunkBytes), 1});
      }
      return true;
    });
    if (!result) return fail(result.error());
    zeros_until(offset + range.length);
    return prepared;
  } catch (const std::bad_alloc&) {
    return fail(Error{Code::kNoMemory, "out of memory", {}});
  }
}

}  // namespace verbena::store
