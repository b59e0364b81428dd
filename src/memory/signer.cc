// SPDX-License-Identifier: Apache-2.0
#include "memory/signer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace verbena::memory {
namespace {

// Data bytes in so many of a side that has signatures.
[[nodiscard]] uint64_t data_in(const SignatureDomain& domain, uint64_t bytes) {
  if (!domain.present()) return bytes;
  const uint64_t unit = uint64_t{domain.block} + domain.bytes();
  const uint64_t rest = bytes % unit;
  return bytes / unit * domain.block + (rest < domain.block ? rest : 0);
}

}  // namespace

Signer::Signer(const Signature& signature, uint64_t memory_bytes)
    : signature_(signature),
      data_bytes_(data_in(signature.memory, memory_bytes)),
      shared_(signature.memory.present() && signature.memory.kind == signature.wire.kind &&
              signature.memory.block == signature.wire.block &&
              signature.memory.seed == signature.wire.seed) {}

uint64_t Signer::wire_bytes() const {
  const SignatureDomain& wire = signature_.wire;
  return wire.present() ? data_bytes_ + data_bytes_ / wire.block * wire.bytes() : data_bytes_;
}

std::optional<SignatureError> Signer::take_error() { return std::exchange(error_, std::nullopt); }

Signer::Position Signer::position(uint64_t wire) const {
  const SignatureDomain& domain = signature_.wire;
  if (!domain.present()) return {.data = wire};
  const uint64_t unit = uint64_t{domain.block} + domain.bytes();
  const uint64_t index = wire / unit;
  const uint64_t rest = wire % unit;
  if (rest < domain.block) return {.data = index * domain.block + rest};
  return {.data = (index + 1) * domain.block,
          .in_signature = true,
          .signature = static_cast<uint32_t>(rest - domain.block)};
}

uint64_t Signer::memory_offset(uint64_t data) const {
  const SignatureDomain& domain = signature_.memory;
  return domain.present() ? data + data / domain.block * domain.bytes() : data;
}

uint64_t Signer::run(uint64_t data, uint64_t n) const {
  for (const SignatureDomain* domain : {&signature_.memory, &signature_.wire}) {
    if (domain->present()) n = std::min<uint64_t>(n, domain->block - data % domain->block);
  }
  return n;
}

Fault Signer::sum_data(SignedMemory& memory, uint64_t from, uint64_t to, BlockSum& sum) {
  std::array<uint8_t, 1024> room;
  while (from < to) {
    const uint64_t take = run(from, std::min<uint64_t>(to - from, room.size()));
    const Fault fault = memory.copy_out(memory_offset(from), std::span(room).first(take), sum);
    if (fault != Fault::kNone) return fault;
    from += take;
  }
  return Fault::kNone;
}

Fault Signer::read_signature(SignedMemory& memory, uint64_t index, SignatureBytes& into) {
  const SignatureDomain& domain = signature_.memory;
  const uint64_t at = index * (uint64_t{domain.block} + domain.bytes()) + domain.block;
  BlockSum none;
  return memory.copy_out(at, std::span(into).first(domain.bytes()), none);
}

Fault Signer::write_signature(SignedMemory& memory, uint64_t index, const Cursor& cursor,
                              bool last) {
  const SignatureDomain& domain = signature_.memory;
  const uint64_t at = index * (uint64_t{domain.block} + domain.bytes()) + domain.block;
  const SignatureBytes bytes =
      merged(domain, cursor.memory_value, index, cursor.found, !cursor.cut);
  BlockSum none;
  return memory.copy_in(at, std::span(bytes).first(domain.bytes()), none, last);
}

SignatureBytes Signer::merged(const SignatureDomain& domain, uint64_t value, uint64_t index,
                              const SignatureBytes& found, bool copy) const {
  SignatureBytes bytes = make_signature(domain, value, index);
  if (!copy) return bytes;
  for (uint32_t i = 0; i < domain.bytes(); ++i) {
    if ((signature_.copy_mask & (0x80 >> i)) != 0) bytes[i] = found[i];
  }
  return bytes;
}

void Signer::check(const SignatureDomain& domain, uint64_t value, uint64_t index,
                   const SignatureBytes& found, bool cut) {
  SignatureError error;
  // One whose beginning was not seen cannot be found right, and is not called so.
  if (!differs(domain, signature_.check_mask, value, index, found, error) &&
      !(cut && signature_.check_mask != 0)) {
    return;
  }
  ++errors_;
  if (error_) return;
  error.offset = index * (uint64_t{domain.block} + domain.bytes());
  error_ = error;
}

void Signer::end_blocks(Cursor& cursor, uint64_t data) {
  const auto ended = [data](const SignatureDomain& domain) {
    return domain.present() && data % domain.block == 0;
  };
  const bool memory_ended = ended(signature_.memory);
  if (ended(signature_.wire)) {
    BlockSum& sum = shared_ ? cursor.memory_sum : cursor.wire_sum;
    cursor.wire_value = sum.value();
    if (!shared_) sum.reset();
  }
  if (memory_ended) {
    cursor.memory_value = cursor.memory_sum.value();
    cursor.memory_sum.reset();
  }
}

// Brings the cursor to a place other than where it stopped.
Fault Signer::rewind(SignedMemory& memory, Cursor& cursor, uint64_t wire, bool out) {
  const Position at = position(wire);
  cursor = Cursor{};
  cursor.wire = wire;
  cursor.memory_sum = BlockSum(signature_.memory);
  cursor.wire_sum = shared_ ? BlockSum() : BlockSum(signature_.wire);
  const auto begin = [&](const SignatureDomain& domain) -> uint64_t {
    if (!domain.present()) return at.data;
    const uint64_t in_block = at.data % domain.block;
    if (in_block != 0) return at.data - in_block;
    // Between a block and its signature: the sum is wanted still.
    return at.in_signature && at.data >= domain.block ? at.data - domain.block : at.data;
  };
  Fault fault = Fault::kNone;
  if (signature_.memory.present()) {
    fault = sum_data(memory, begin(signature_.memory), at.data, cursor.memory_sum);
    if (fault != Fault::kNone) return fault;
  }
  if (signature_.wire.present() && !shared_) {
    fault = sum_data(memory, begin(signature_.wire), at.data, cursor.wire_sum);
    if (fault != Fault::kNone) return fault;
  }
  if (at.in_signature) {
    end_blocks(cursor, at.data);
    if (out && signature_.copy_mask != 0) {
      fault = read_signature(memory, at.data / signature_.memory.block - 1, cursor.found);
      if (fault != Fault::kNone) return fault;
    }
    cursor.cut = at.signature != 0;
  }
  cursor.valid = true;
  return Fault::kNone;
}

Fault Signer::gather(SignedMemory& memory, uint64_t wire, uint64_t n, Pieces& out, bool checks) {
  Cursor& cursor = out_;
  const SignatureDomain& in_memory = signature_.memory;
  if (!cursor.valid || cursor.wire != wire) {
    const Fault fault = rewind(memory, cursor, wire, true);
    if (fault != Fault::kNone) return fault;
  }
  cursor.valid = false;  // until all went well
  while (n > 0) {
    const Position at = position(wire);
    uint64_t take;
    if (!at.in_signature) {
      take = run(at.data, n);
      const std::span<uint8_t> room = out.stage(take);
      BlockSum& first = in_memory.present() ? cursor.memory_sum : cursor.wire_sum;
      Fault fault = memory.copy_out(memory_offset(at.data), room, first);
      if (fault != Fault::kNone) return fault;
      if (in_memory.present() && !shared_) cursor.wire_sum.update(room);
      const uint64_t data = at.data + take;
      end_blocks(cursor, data);
      if (in_memory.present() && data % in_memory.block == 0) {
        const uint64_t index = data / in_memory.block - 1;
        fault = read_signature(memory, index, cursor.found);
        if (fault != Fault::kNone) return fault;
        if (checks) check(in_memory, cursor.memory_value, index, cursor.found, false);
      }
    } else {
      const SignatureDomain& domain = signature_.wire;
      take = std::min<uint64_t>(n, domain.bytes() - at.signature);
      const SignatureBytes bytes = merged(domain, cursor.wire_value, at.data / domain.block - 1,
                                          cursor.found, /*copy=*/true);
      std::memcpy(out.stage(take).data(), bytes.data() + at.signature, take);
    }
    wire += take;
    n -= take;
  }
  cursor.wire = wire;
  cursor.valid = true;
  return Fault::kNone;
}

Fault Signer::scatter(SignedMemory& memory, uint64_t wire, std::span<const uint8_t> bytes,
                      bool last) {
  Cursor& cursor = in_;
  out_.valid = false;  // it may have summed what is written over now
  const SignatureDomain& in_memory = signature_.memory;
  const SignatureDomain& on_wire = signature_.wire;
  if (!cursor.valid || cursor.wire != wire) {
    const Fault fault = rewind(memory, cursor, wire, false);
    if (fault != Fault::kNone) return fault;
  }
  cursor.valid = false;  // until all went well
  while (!bytes.empty()) {
    const Position at = position(wire);
    uint64_t take;
    if (!at.in_signature) {
      take = run(at.data, bytes.size());
      const uint64_t data = at.data + take;
      // A signature that is passed on is written when it has come.
      const bool signs =
          in_memory.present() && data % in_memory.block == 0 && signature_.copy_mask == 0;
      const bool ends = last && take == bytes.size();
      BlockSum& first = in_memory.present() ? cursor.memory_sum : cursor.wire_sum;
      Fault fault =
          memory.copy_in(memory_offset(at.data), bytes.first(take), first, ends && !signs);
      if (fault != Fault::kNone) return fault;
      if (in_memory.present() && !shared_) cursor.wire_sum.update(bytes.first(take));
      end_blocks(cursor, data);
      if (on_wire.present() && data % on_wire.block == 0) cursor.cut = false;
      if (signs) {
        fault = write_signature(memory, data / in_memory.block - 1, cursor, ends);
        if (fault != Fault::kNone) return fault;
      }
    } else {
      take = std::min<uint64_t>(bytes.size(), on_wire.bytes() - at.signature);
      std::memcpy(cursor.found.data() + at.signature, bytes.data(), take);
      if (at.signature + take == on_wire.bytes()) {
        const uint64_t index = at.data / on_wire.block - 1;
        check(on_wire, cursor.wire_value, index, cursor.found, cursor.cut);
        if (signature_.copy_mask != 0 && in_memory.present()) {
          const Fault fault = write_signature(memory, index, cursor, last && take == bytes.size());
          if (fault != Fault::kNone) return fault;
        }
      }
    }
    wire += take;
    bytes = bytes.subspan(take);
  }
  cursor.wire = wire;
  // The program may change the memory before the next transfer goes on from here, with a sum that
  // must be of what lies there then. Half a signature is nowhere but here.
  cursor.valid = !last || position(wire).signature != 0;
  return Fault::kNone;
}

}  // namespace verbena::memory
