// SPDX-License-Identifier: Apache-2.0
#include "memory/indirect_key.h"

#include <algorithm>
#include <array>
#include <utility>

#include "memory/move.h"

namespace verbena::memory {
namespace {

constexpr uint32_t kKeyAccess = kLocalWrite | kAnyRemote | kZeroBased;
// A stride is 16 bits wide in a ConnectX.
constexpr uint32_t kMaxStride = 65535;

[[nodiscard]] ConfigError check_layout(const KeySpec& spec, const KeyConfig& config) {
  // The head of an interleave takes the place of an entry.
  const size_t entries = config.blocks.size() + (config.interleaved ? 1 : 0);
  if (entries > spec.max_entries) return ConfigError::kTooMany;
  if (config.blocks.empty() || config.repeat == 0) return ConfigError::kInvalid;
  if (!config.interleaved) return ConfigError::kNone;
  for (const KeyBlock& block : config.blocks) {
    if (block.bytes == 0 || block.bytes > kMaxStride || block.skip > kMaxStride - block.bytes) {
      return ConfigError::kInvalid;
    }
  }
  return config.repeat > 0xffffffff ? ConfigError::kInvalid : ConfigError::kNone;
}

[[nodiscard]] ConfigError check_signature(const KeySpec& spec, const Signature& signature) {
  const bool some = signature.memory.present() || signature.wire.present();
  const bool copies = signature.copy_mask != 0;
  if (!spec.signature || !some || !is_valid(signature.memory) || !is_valid(signature.wire) ||
      (copies && !same_structure(signature.memory, signature.wire))) {
    return ConfigError::kInvalid;
  }
  return ConfigError::kNone;
}

}  // namespace

ConfigError check_config(const KeySpec& spec, const KeyConfig& config) {
  if (config.access && (*config.access & ~kKeyAccess) != 0) return ConfigError::kInvalid;
  if (config.has_layout) {
    if (const auto error = check_layout(spec, config); error != ConfigError::kNone) return error;
  }
  return config.signature ? check_signature(spec, *config.signature) : ConfigError::kNone;
}

// Counts how deep keys lie over keys: a peer's packet must not go round in a circle.
class IndirectKey::Descent {
 public:
  explicit Descent(IndirectShare& share) : share_(share) { ++share_.depth; }
  ~Descent() { --share_.depth; }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;
  [[nodiscard]] bool too_deep() const { return share_.depth > kMaxDepth; }

 private:
  IndirectShare& share_;
};

IndirectKey::IndirectKey(IndirectShare& share, PdId pd, const KeySpec& spec)
    : share_(share), pd_(pd), spec_(spec) {
  map_.reserve(spec.max_entries);
}

bool IndirectKey::lies_over_keys() {
  if (!lies_over_keys_) {
    lies_over_keys_ = std::ranges::any_of(map_.blocks(), [this](const KeyBlock& block) {
      const Entry* const entry = share_.keys->find(block.key.value);
      return entry != nullptr && entry->kind == Kind::kIndirect;
    });
  }
  return *lies_over_keys_;
}

void IndirectKey::configure(const KeyConfig& config) {
  keep_error();
  if (config.has_layout) {
    map_.set(config.blocks, config.repeat);
    lies_over_keys_.reset();
  }
  if (config.signature) {
    signer_.emplace(*config.signature, map_.length());
  } else if (config.reset_signature) {
    signer_.reset();
  } else if (signer_ && config.has_layout) {
    signer_.emplace(Signature(signer_->signature()), map_.length());
  }
}

void IndirectKey::clear() {
  keep_error();
  map_.clear();
  signer_.reset();
}

std::optional<SignatureError> IndirectKey::take_error() {
  const auto later = signer_ ? signer_->take_error() : std::nullopt;
  const auto first = std::exchange(error_, std::nullopt);
  return first ? first : later;
}

void IndirectKey::keep_error() {
  if (signer_ && !error_) error_ = signer_->take_error();
}

Fault IndirectKey::find(const BlockMap::Part& part, bool write, Place& place) const {
  const Use use{.key = part.key.value,
                .pd = pd_,
                .needed = write ? uint32_t{kLocalWrite} : 0,
                .addr = part.addr,
                .length = part.within + part.bytes};
  const Fault fault = resolve<Side::kLocal>(*share_.keys, use, place);
  place.offset += part.within;
  return fault;
}

Fault IndirectKey::read(const Place& place, uint64_t n, Pieces& out) const {
  return share_.repeats != nullptr ? place.layout->read_by(*share_.repeats, place.offset, n, out)
                                   : place.layout->read(place.offset, n, out);
}

std::span<const uint8_t> IndirectKey::readable(const Place& place, uint64_t n) const {
  if (share_.repeats != nullptr) return {};
  return place.layout->plain(place.offset, n, false);
}

template <typename Visit>
Fault IndirectKey::walk(uint64_t at, uint64_t n, bool write, Visit&& visit) {
  const Descent descent(share_);
  if (descent.too_deep()) return Fault::kWrongState;
  return map_.walk(at, n, [&](const BlockMap::Part& part) {
    Place place;
    const Fault fault = find(part, write, place);
    return fault == Fault::kNone ? visit(place, part.bytes) : fault;
  });
}

template <typename Move>
Fault IndirectKey::sign(Move&& move) {
  // None under another: for each of its blocks, whole blocks of this would be read again.
  if (share_.signing) return Fault::kWrongState;
  share_.signing = true;
  const uint64_t before = signer_->errors();
  const Fault fault = move();
  share_.signature_errors += signer_->errors() - before;
  share_.signing = false;
  return fault;
}

Fault IndirectKey::gather(uint64_t at, uint64_t n, Pieces& out) {
  if (!signer_) {
    return walk(at, n, false,
                [&](const Place& place, uint64_t bytes) { return read(place, bytes, out); });
  }
  return sign([&] { return signer_->gather(*this, at, n, out, !share_.again); });
}

Fault IndirectKey::scatter(uint64_t at, std::span<const uint8_t> bytes, bool last) {
  if (!signer_) {
    return walk(at, bytes.size(), true, [&](const Place& place, uint64_t n) {
      const auto part = bytes.first(n);
      bytes = bytes.subspan(n);
      return place.layout->write(place.offset, part, last && bytes.empty());
    });
  }
  return sign([&] { return signer_->scatter(*this, at, bytes, last); });
}

std::span<uint8_t> IndirectKey::plain(uint64_t at, uint64_t n, bool write) {
  std::span<uint8_t> first;
  if (signer_) return first;
  (void)walk(at, n, write, [&](const Place& place, uint64_t bytes) {
    first = place.layout->plain(place.offset, bytes, write);
    return Fault::kOutOfBounds;  // that is all
  });
  return first;
}

Result<Word, Fault> IndirectKey::word(uint64_t at) {
  Result<Word, Fault> found = fail(Fault::kMisaligned);  // also when it lies in two blocks
  if (signer_) return fail(Fault::kNoAccess);
  const Fault fault = walk(at, 8, true, [&](const Place& place, uint64_t bytes) {
    if (bytes != 8) return Fault::kMisaligned;
    found = place.layout->word(place.offset);
    return Fault::kNone;
  });
  if (fault != Fault::kNone) return fail(fault);
  return found;
}

Fault IndirectKey::copy_out(uint64_t at, std::span<uint8_t> to, BlockSum& sum) {
  return walk(at, to.size(), false, [&](Place place, uint64_t bytes) {
    while (bytes > 0) {
      const auto plain = readable(place, bytes);
      uint64_t take = plain.size();
      if (!plain.empty()) {
        sum.copy(to.data(), plain);
      } else {
        std::array<uint8_t, 4096> room;
        take = std::min<uint64_t>(bytes, room.size());
        Pieces pieces(room);
        const Fault fault = read(place, take, pieces);
        if (fault != Fault::kNone) return fault;
        uint8_t* next = to.data();
        for (const auto piece : pieces.list()) {
          sum.copy(next, piece);
          next += piece.size();
        }
      }
      to = to.subspan(take);
      place.offset += take;
      bytes -= take;
    }
    return Fault::kNone;
  });
}

Fault IndirectKey::copy_in(uint64_t at, std::span<const uint8_t> bytes, BlockSum& sum, bool last) {
  return walk(at, bytes.size(), true, [&](Place place, uint64_t n) {
    while (n > 0) {
      const auto plain = place.layout->plain(place.offset, n, true);
      const uint64_t take = plain.empty() ? n : plain.size();
      const auto part = bytes.first(take);
      bytes = bytes.subspan(take);
      const bool ends = last && bytes.empty();
      if (!plain.empty() && !ends) {
        sum.copy(plain.data(), part);
      } else {
        sum.update(part);
        const Fault fault = place.layout->write(place.offset, part, ends);
        if (fault != Fault::kNone) return fault;
      }
      place.offset += take;
      n -= take;
    }
    return Fault::kNone;
  });
}

}  // namespace verbena::memory
