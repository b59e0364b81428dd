// SPDX-License-Identifier: Apache-2.0
// A naive model of indirect keys, for tests: it keeps a copy of the memory, looks up every block of
// every key from the first one on, and makes signatures for whole ranges at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "memory/domain.h"
#include "memory/signature_model.h"

namespace verbena::memory {

class IndirectModel {
 public:
  using Bytes = signature_model::Bytes;

  struct Thing {
    PdId pd{};
    bool usable = true;
    uint32_t access = 0;
    uint64_t start = 0;
    // of a region
    uint64_t offset = 0;  // in the memory
    uint64_t length = 0;
    bool on_demand = false;
    // of a key
    bool is_key = false;
    std::vector<KeyBlock> blocks{};
    uint64_t repeat = 1;
    std::optional<Signature> signature{};

    [[nodiscard]] uint64_t layout_bytes() const {
      if (!is_key) return length;
      uint64_t sum = 0;
      for (const KeyBlock& block : blocks) sum += block.bytes;
      return sum * repeat;
    }
    // By which it is used.
    [[nodiscard]] uint64_t bytes() const {
      if (!signature) return layout_bytes();
      const SignatureDomain& memory = signature->memory;
      const SignatureDomain& wire = signature->wire;
      uint64_t data = layout_bytes();
      if (memory.present()) {
        const uint64_t unit = memory.block + memory.bytes();
        const uint64_t rest = data % unit;
        data = data / unit * memory.block + (rest < memory.block ? rest : 0);
      }
      return wire.present() ? data + data / wire.block * wire.bytes() : data;
    }
  };
  struct Wanted {
    uint32_t key;
    PdId pd;
    uint32_t needed;
    uint64_t addr;
    uint64_t n;
    uint64_t within = 0;  // of a block that begins at `addr`, which must be inside too
  };

  std::vector<uint8_t> memory;
  uintptr_t address = 0;             // of the memory itself
  std::map<uint32_t, Thing> things;  // by key
  std::set<uintptr_t> missing_pages;
  uintptr_t page_bytes = 1;
  // Set when a part of a key with signatures was asked for whose layout cannot be used as a whole:
  // whether that is noticed depends on where blocks begin.
  bool uncertain = false;

  [[nodiscard]] Fault read(const Wanted& use, Bytes& out) {
    uncertain = false;
    return visit(
        use, 0, false, [&](uint64_t at, uint64_t n) { take(out, at, n); },
        [&](const Thing& thing, uint64_t at, uint64_t n, uint32_t depth) {
          return read_signed(thing, at, n, depth, out);
        });
  }
  // As far as it goes. Of a key with signatures: all of it, or it is refused with kNone and false.
  [[nodiscard]] Fault write(const Wanted& use, std::span<const uint8_t> bytes, bool& modelled) {
    uncertain = false;
    modelled = true;
    return visit(
        use, 0, true, [&](uint64_t at, uint64_t n) { put(bytes, at, n); },
        [&](const Thing& thing, uint64_t at, uint64_t n, uint32_t depth) {
          modelled = modelled && at == 0 && n == thing.bytes();
          return write_signed(thing, bytes, n, depth, modelled);
        });
  }

 private:
  void take(Bytes& out, uint64_t at, uint64_t n) const {
    const auto from = memory.begin() + static_cast<ptrdiff_t>(at);
    out.insert(out.end(), from, from + static_cast<ptrdiff_t>(n));
  }
  void put(std::span<const uint8_t>& bytes, uint64_t at, uint64_t n) {
    std::ranges::copy(bytes.first(n), memory.begin() + static_cast<ptrdiff_t>(at));
    bytes = bytes.subspan(n);
  }

  // memory_part(at, n), signed_part(thing, at, n, depth) -> Fault
  template <typename MemoryPart, typename SignedPart>
  [[nodiscard]] Fault visit(const Wanted& use, uint32_t depth, bool write,
                            const MemoryPart& memory_part, const SignedPart& signed_part) {
    const auto found = things.find(use.key);
    if (found == things.end()) return Fault::kNoSuchKey;
    const Thing& thing = found->second;
    if (!thing.usable) return Fault::kWrongState;
    if (thing.pd != use.pd) return Fault::kWrongPd;
    if ((thing.access & use.needed) != use.needed) return Fault::kNoAccess;
    const uint64_t block = use.addr - thing.start;
    const uint64_t at = block + use.within;
    if (block > thing.bytes() || use.within + use.n > thing.bytes() - block) {
      return Fault::kOutOfBounds;
    }
    if (thing.signature) return signed_part(thing, at, use.n, depth);
    if (thing.is_key) return layout(thing, at, use.n, depth, write, memory_part, signed_part);
    for (uint64_t i = 0; thing.on_demand && i < use.n; ++i) {
      if (missing_pages.contains((address + thing.offset + at + i) / page_bytes))
        return Fault::kPage;
    }
    memory_part(thing.offset + at, use.n);
    return Fault::kNone;
  }
  template <typename MemoryPart, typename SignedPart>
  [[nodiscard]] Fault layout(const Thing& key, uint64_t at, uint64_t n, uint32_t depth, bool write,
                             const MemoryPart& memory_part, const SignedPart& signed_part) {
    if (depth >= IndirectKey::kMaxDepth) return Fault::kWrongState;
    uint64_t before = 0;
    for (uint64_t round = 0; round < key.repeat && before < at + n; ++round) {
      for (const KeyBlock& block : key.blocks) {
        const uint64_t from = std::max(at, before);
        const uint64_t to = std::min(at + n, before + block.bytes);
        const uint64_t addr = block.addr + round * (uint64_t{block.bytes} + block.skip);
        before += block.bytes;
        if (from >= to) continue;
        const uint64_t within = from - (before - block.bytes);
        const uint32_t needed = write ? uint32_t{kLocalWrite} : 0;
        const Fault fault = visit({block.key.value, key.pd, needed, addr, to - from, within},
                                  depth + 1, write, memory_part, signed_part);
        if (fault != Fault::kNone) return fault;
      }
    }
    return Fault::kNone;
  }

  [[nodiscard]] Fault whole_layout(const Thing& thing, uint32_t depth, bool write, Bytes& image,
                                   std::vector<std::pair<uint64_t, uint64_t>>& parts) {
    const Fault fault = layout(
        thing, 0, thing.layout_bytes(), depth, write,
        [&](uint64_t at, uint64_t n) {
          take(image, at, n);
          parts.emplace_back(at, n);
        },
        // None under another.
        [](const Thing&, uint64_t, uint64_t, uint32_t) { return Fault::kWrongState; });
    if (fault != Fault::kNone) uncertain = true;
    return fault;
  }
  [[nodiscard]] Fault read_signed(const Thing& thing, uint64_t at, uint64_t n, uint32_t depth,
                                  Bytes& out) {
    Bytes image;
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    const Fault fault = whole_layout(thing, depth, false, image, parts);
    if (fault != Fault::kNone) return fault;
    const auto apart = signature_model::apart(thing.signature->memory, image);
    const Bytes wire = signature_model::together(thing.signature->wire, apart.data,
                                                 apart.signatures, thing.signature->copy_mask);
    out.insert(out.end(), wire.begin() + static_cast<ptrdiff_t>(at),
               wire.begin() + static_cast<ptrdiff_t>(at + n));
    return Fault::kNone;
  }
  [[nodiscard]] Fault write_signed(const Thing& thing, std::span<const uint8_t>& bytes, uint64_t n,
                                   uint32_t depth, bool modelled) {
    Bytes image;
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    const Fault fault = whole_layout(thing, depth, true, image, parts);
    if (fault != Fault::kNone || !modelled) return fault;
    const Bytes wire(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    const auto apart = signature_model::apart(thing.signature->wire, wire);
    const Bytes stored = signature_model::together(thing.signature->memory, apart.data,
                                                   apart.signatures, thing.signature->copy_mask);
    // What is left at the end keeps what it had.
    std::span<const uint8_t> rest(stored);
    for (const auto& [at, length] : parts) put(rest, at, std::min<uint64_t>(length, rest.size()));
    return Fault::kNone;
  }
};

}  // namespace verbena::memory
