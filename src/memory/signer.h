// SPDX-License-Identifier: Apache-2.0
// The data of a key with signatures, on its way between memory and wire:
//
//   memory  | block m      |sig| block m      |sig| rest |      offsets of the key's layout
//   data    | block m      | block m      | rest |
//   wire    | block w   |sig| block w   |sig| rest     |        offsets by which the key is used
//
// Either side may have no signatures; blocks and kinds may differ. What is left at the end, shorter
// than a block, has none; a block in memory without room for its signature is not part of the
// range. On the way out signatures of memory are checked and left out, those of the wire are made
// (or passed on, by the copy mask); on the way in it is the other way round.
//
// The running sums belong to one transfer that goes from front to back, however packets cut it. Who
// begins elsewhere (a packet sent again) pays for reading the block's beginning once more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "memory/access.h"
#include "memory/pieces.h"
#include "memory/signature.h"

namespace verbena::memory {

// The memory under the signatures, by offsets of the layout.
class SignedMemory {
 public:
  virtual ~SignedMemory() = default;
  // Both move bytes and add them to the sum in one pass.
  [[nodiscard]] virtual Fault copy_out(uint64_t at, std::span<uint8_t> to, BlockSum& sum) = 0;
  [[nodiscard]] virtual Fault copy_in(uint64_t at, std::span<const uint8_t> bytes, BlockSum& sum,
                                      bool last) = 0;
};

class Signer {
 public:
  Signer(const Signature& signature, uint64_t memory_bytes);

  [[nodiscard]] const Signature& signature() const { return signature_; }
  [[nodiscard]] uint64_t wire_bytes() const;

  // `checks`: or else they were, the last time that this went out.
  [[nodiscard]] Fault gather(SignedMemory& memory, uint64_t wire, uint64_t n, Pieces& out,
                             bool checks);
  [[nodiscard]] Fault scatter(SignedMemory& memory, uint64_t wire, std::span<const uint8_t> bytes,
                              bool last);

  // The first that was found since this was last asked.
  [[nodiscard]] std::optional<SignatureError> take_error();
  // All that were found.
  [[nodiscard]] uint64_t errors() const { return errors_; }

 private:
  struct Position {
    uint64_t data = 0;  // of the next data byte
    bool in_signature = false;
    uint32_t signature = 0;  // bytes of the signature before it
  };
  // Of one direction.
  struct Cursor {
    bool valid = false;
    uint64_t wire = 0;
    BlockSum memory_sum;  // of the blocks under way
    BlockSum wire_sum;
    uint64_t wire_value = 0;    // of the block whose signature is due on the wire
    uint64_t memory_value = 0;  // of the block whose signature is due in memory
    SignatureBytes found{};     // the signature that arrived
    bool cut = false;           // its beginning was not seen
  };

  [[nodiscard]] Position position(uint64_t wire) const;
  [[nodiscard]] uint64_t memory_offset(uint64_t data) const;
  // How much of n bytes of data from there belongs to the same blocks.
  [[nodiscard]] uint64_t run(uint64_t data, uint64_t n) const;
  [[nodiscard]] Fault rewind(SignedMemory& memory, Cursor& cursor, uint64_t wire, bool out);
  [[nodiscard]] Fault sum_data(SignedMemory& memory, uint64_t from, uint64_t to, BlockSum& sum);
  [[nodiscard]] Fault read_signature(SignedMemory& memory, uint64_t index, SignatureBytes& into);
  [[nodiscard]] Fault write_signature(SignedMemory& memory, uint64_t index, const Cursor& cursor,
                                      bool last);
  // After `take` bytes of data: sums of blocks that ended become values.
  void end_blocks(Cursor& cursor, uint64_t data);
  void check(const SignatureDomain& domain, uint64_t value, uint64_t index,
             const SignatureBytes& found, bool cut);
  [[nodiscard]] SignatureBytes merged(const SignatureDomain& domain, uint64_t value, uint64_t index,
                                      const SignatureBytes& found, bool copy) const;

  Signature signature_;
  uint64_t data_bytes_;
  bool shared_;  // both sides have the same sum over the same blocks: it is made once
  Cursor out_;
  Cursor in_;
  std::optional<SignatureError> error_;
  uint64_t errors_ = 0;
};

}  // namespace verbena::memory
