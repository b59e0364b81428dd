// SPDX-License-Identifier: Apache-2.0
// A key whose range is made of other keys' (block_map.h), with signatures if it has them
// (signer.h). What lies under it is looked up and checked at every use: key, state, PD, access,
// bounds; a region that is gone is gone here as well.
// Keys lie over keys up to kMaxDepth, and one of them at most has signatures.
//
//   free --configure with a layout--> configured --configure--> configured
//     ^                                    |
//     +----- LOCAL_INV, SEND with invalidate (if allowed) -----+
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/accessor.h"
#include "memory/block_map.h"
#include "memory/resolve.h"
#include "memory/signer.h"

namespace verbena::memory {

// What is fixed when a key is made.
struct KeySpec {
  uint32_t max_entries = 0;
  bool signature = false;
  bool remote_invalidate = false;
};

// What a configuration sets; all else stays as it was.
struct KeyConfig {
  std::optional<uint32_t> access{};  // Access: kLocalWrite and the remote rights
  std::optional<uint64_t> start{};   // address of the first byte; 0 if never set
  bool has_layout = false;
  bool interleaved = false;
  std::vector<KeyBlock> blocks{};
  uint64_t repeat = 1;
  bool reset_signature = false;
  std::optional<Signature> signature{};
};

enum class ConfigError : uint8_t { kNone, kInvalid, kTooMany };
// Whether such a key can be configured so: what its caller is told before the request is queued.
[[nodiscard]] ConfigError check_config(const KeySpec& spec, const KeyConfig& config);

// What all keys of a domain share.
struct IndirectShare {
  const KeyTable* keys = nullptr;
  // Of the use under way:
  uint32_t depth = 0;           // keys over keys over keys
  bool signing = false;         // a key with signatures is among them
  bool again = false;           // what is read went out before
  Accessor* repeats = nullptr;  // by which plain memory is read; nullptr: as it lies
  uint64_t signature_errors = 0;
};

class IndirectKey final : public Backing, private SignedMemory {
 public:
  static constexpr uint32_t kMaxDepth = 4;

  IndirectKey(IndirectShare& share, PdId pd, const KeySpec& spec);

  [[nodiscard]] const KeySpec& spec() const { return spec_; }
  // Of the range by which it is used.
  [[nodiscard]] uint64_t length() const { return signer_ ? signer_->wire_bytes() : map_.length(); }
  // Whether there are others like it among those that it is made of.
  [[nodiscard]] bool lies_over_keys();
  // The configuration passed check_config().
  void configure(const KeyConfig& config);
  void clear();
  [[nodiscard]] std::optional<SignatureError> take_error();

  [[nodiscard]] Fault gather(uint64_t at, uint64_t n, Pieces& out) override;
  [[nodiscard]] Fault scatter(uint64_t at, std::span<const uint8_t> bytes, bool last) override;
  [[nodiscard]] std::span<uint8_t> plain(uint64_t at, uint64_t n, bool write) override;
  [[nodiscard]] Result<Word, Fault> word(uint64_t at) override;

 private:
  class Descent;

  [[nodiscard]] Fault find(const BlockMap::Part& part, bool write, Place& place) const;
  [[nodiscard]] Fault read(const Place& place, uint64_t n, Pieces& out) const;
  // As much as the CPU may read at once; empty: read() it.
  [[nodiscard]] std::span<const uint8_t> readable(const Place& place, uint64_t n) const;
  // visit(place, bytes) -> Fault, for each part of the layout.
  template <typename Visit>
  [[nodiscard]] Fault walk(uint64_t at, uint64_t n, bool write, Visit&& visit);

  // Before the signer goes: what it found is the program's to take, whatever the key becomes. (A
  // peer's SEND that answers may invalidate the key before the program can ask.)
  void keep_error();
  // move() -> Fault, by the signer.
  template <typename Move>
  [[nodiscard]] Fault sign(Move&& move);

  [[nodiscard]] Fault copy_out(uint64_t at, std::span<uint8_t> to, BlockSum& sum) override;
  [[nodiscard]] Fault copy_in(uint64_t at, std::span<const uint8_t> bytes, BlockSum& sum,
                              bool last) override;

  IndirectShare& share_;
  const PdId pd_;
  const KeySpec spec_;
  BlockMap map_;
  std::optional<bool> lies_over_keys_;  // once it was asked for
  std::optional<Signer> signer_;
  std::optional<SignatureError> error_;  // of a signer before
};

}  // namespace verbena::memory
