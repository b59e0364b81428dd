// SPDX-License-Identifier: Apache-2.0
#include "link/ring.h"

#include <bit>

#include <sys/mman.h>

#include "link/sealed_memory.h"

namespace verbena::link {

Ring::~Ring() {
  if (shared_ != nullptr) ::munmap(shared_, kPage + 2 * size_t{bytes()});
}

std::optional<Ring> Ring::map(int fd, uint32_t bytes) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* const all =
      ::mmap(nullptr, kPage + 2 * size_t{bytes}, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return std::nullopt;
  Ring ring;
  ring.shared_ = static_cast<Shared*>(all);
  ring.data_ = static_cast<uint8_t*>(all) + kPage;
  ring.mask_ = bytes - 1;
  if (::mmap(all, kPage + bytes, kAccess, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
      ::mmap(ring.data_ + bytes, bytes, kAccess, MAP_SHARED | MAP_FIXED, fd, kPage) == MAP_FAILED) {
    return std::nullopt;
  }
  (void)::madvise(all, kPage + 2 * size_t{bytes}, MADV_DONTDUMP);
  return ring;
}

std::optional<Ring::Made> Ring::make(uint32_t bytes) {
  UniqueFd fd = make_sealed_memory("verbena.ring", kPage + bytes);
  if (!fd.valid()) return std::nullopt;
  auto ring = map(fd.get(), bytes);
  if (!ring) return std::nullopt;
  return Made{std::move(*ring), std::move(fd)};
}

std::optional<Ring> Ring::adopt(int fd) {
  const auto size = sealed_size(fd);
  if (!size || *size < kPage + kLeastBytes || *size > kPage + kMostBytes ||
      !std::has_single_bit(*size - kPage)) {
    return std::nullopt;
  }
  auto ring = map(fd, static_cast<uint32_t>(*size - kPage));
  uint32_t was = kOffered;
  if (!ring ||
      ring->shared_->state.compare_exchange_strong(was, kTaken, std::memory_order_acq_rel) ||
      was != kWithdrawn) {
    return ring;
  }
  return std::nullopt;
}

bool RingWriter::give_back() {
  if (!is_read()) return false;
  tail_ = head_;
  // All zero afterwards: the word that the reader looks at is, already.
  (void)::madvise(data_, bytes(), MADV_REMOVE);
  return true;
}

std::optional<RingReader::Record> RingReader::next() {
  const uint64_t word = word_at(tail_).load(std::memory_order_acquire);
  if (word == 0 || broken_) return std::nullopt;
  const RecordHead head = RecordHead::of(word);
  // The writer leaves one line free.
  if (head.header_bytes > kMaxHeaderBytes || head.payload_bytes > kMaxPayloadBytes ||
      tail_ + length_of(head) - released_ > bytes() - kLine) {
    broken_ = true;
    return std::nullopt;
  }
  // Who reads this one looks at the next, whose line the writer has.
  __builtin_prefetch(at(tail_ + length_of(head)));
  const uint8_t* const start = at(tail_);
  return Record{head,
                {start + RecordHead::kBytes, head.header_bytes},
                {start + head.payload_at(), head.payload_bytes}};
}

bool RingReader::release() {
  if (released_ == tail_) return false;
  released_ = tail_;
  // Pairs with ask_for_room(): either we see that it was refused, or it sees this.
  shared_->tail.store(tail_, std::memory_order_seq_cst);
  if (shared_->wants_room.load(std::memory_order_seq_cst) == 0) return false;
  return shared_->wants_room.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace verbena::link
