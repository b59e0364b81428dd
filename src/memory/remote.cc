// SPDX-License-Identifier: Apache-2.0
// Use by a peer: one range of one key.
#include <array>
#include <bit>
#include <cstring>

#include "memory/domain.h"
#include "memory/resolve.h"
#include "memory/tables.h"

namespace verbena::memory {
namespace {

// A word of a program's memory, whatever type the program gave it.
using Word64 [[gnu::may_alias]] = uint64_t;

Use remote_use(const RemoteUser& user, RKey rkey, RemoteAddr addr, uint64_t length,
               uint32_t needed) {
  return {.key = rkey.value,
          .pd = user.pd,
          .qpn = user.qpn,
          .needed = needed,
          .addr = addr.value,
          .length = length};
}

Result<Word, Fault> resolve_word(const KeyTable& keys, const Use& use) {
  Place place;
  const Fault fault = resolve<Side::kRemote>(keys, use, place);
  if (fault != Fault::kNone) return fail(fault);
  if (use.addr % 8 != 0) return fail(Fault::kMisaligned);
  return place.layout->word(place.offset);
}

// In memory that may go away at any time: no CPU instruction of ours touches it. The domain's owner
// calls in from one thread at a time, so this is atomic among its peers, though not to the program.
Result<uint64_t, Fault> atomic_through(Accessor& accessor, uint8_t* at, AtomicOp op,
                                       uint64_t swap_add, uint64_t compare) {
  std::array<uint8_t, 8> bytes;
  Fault fault = accessor.read(at, bytes);
  if (fault != Fault::kNone) return fail(fault);
  const auto old = std::bit_cast<uint64_t>(bytes);
  // A comparison that fails stores nothing: the program may have stored in between.
  if (op == AtomicOp::kCompareSwap && old != compare) return old;
  bytes =
      std::bit_cast<std::array<uint8_t, 8>>(op == AtomicOp::kFetchAdd ? old + swap_add : swap_add);
  fault = accessor.write(at, bytes);
  if (fault != Fault::kNone) return fail(fault);
  return old;
}

}  // namespace

Fault Domain::check_remote(const RemoteUser& user, RKey rkey, RemoteAddr addr, uint64_t length,
                           uint32_t needed) const {
  if (length == 0) return Fault::kNone;
  Place place;
  return resolve<Side::kRemote>(tables_->keys, remote_use(user, rkey, addr, length, needed), place);
}

Fault Domain::remote_write(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                           std::span<const uint8_t> bytes, bool last) const {
  if (bytes.empty()) return Fault::kNone;
  Place place;
  const Fault fault = resolve<Side::kRemote>(
      tables_->keys, remote_use(user, rkey, addr, bytes.size(), kRemoteWrite), place);
  if (fault != Fault::kNone) return fault;
  return place.layout->write(place.offset, bytes, last);
}

Fault Domain::remote_read(const RemoteUser& user, RKey rkey, RemoteAddr addr, uint32_t n,
                          Pieces& out, bool again) const {
  if (n == 0) return Fault::kNone;
  Place place;
  const Fault fault =
      resolve<Side::kRemote>(tables_->keys, remote_use(user, rkey, addr, n, kRemoteRead), place);
  if (fault != Fault::kNone) return fault;
  tables_->share.again = again;
  if (!again || tables_->options.repeats == nullptr)
    return place.layout->read(place.offset, n, out);
  tables_->share.repeats = tables_->options.repeats;
  const Fault read = place.layout->read_by(*tables_->share.repeats, place.offset, n, out);
  tables_->share.repeats = nullptr;
  return read;
}

std::span<uint8_t> Domain::remote_stretch(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                          uint64_t n, uint32_t needed) const {
  Place place;
  const Fault fault =
      resolve<Side::kRemote>(tables_->keys, remote_use(user, rkey, addr, n, needed), place);
  if (fault != Fault::kNone) return {};
  return place.layout->plain(place.offset, n, needed == kRemoteWrite);
}

Result<uint64_t, Fault> Domain::remote_atomic(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                              AtomicOp op, uint64_t swap_add,
                                              uint64_t compare) const {
  const auto at = resolve_word(tables_->keys, remote_use(user, rkey, addr, 8, kRemoteAtomic));
  if (!at) return fail(at.error());
  if (at->accessor != nullptr) {
    return atomic_through(*at->accessor, at->at, op, swap_add, compare);
  }
  auto* const word = reinterpret_cast<Word64*>(at->at);
  // The CPU's own instructions, so that they are atomic to the program's atomics as well.
  if (op == AtomicOp::kFetchAdd) return __atomic_fetch_add(word, swap_add, __ATOMIC_SEQ_CST);
  uint64_t old = compare;
  __atomic_compare_exchange_n(word, &old, swap_add, /*weak=*/false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  return old;
}

Fault Domain::remote_atomic_write(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                  std::span<const uint8_t, 8> bytes) const {
  const auto at = resolve_word(tables_->keys, remote_use(user, rkey, addr, 8, kRemoteWrite));
  if (!at) return at.error();
  if (at->accessor != nullptr) return at->accessor->write(at->at, bytes);
  uint64_t value;
  std::memcpy(&value, bytes.data(), sizeof value);
  __atomic_store_n(reinterpret_cast<Word64*>(at->at), value, __ATOMIC_SEQ_CST);
  return Fault::kNone;
}

}  // namespace verbena::memory
