// SPDX-License-Identifier: Apache-2.0
// One end of a message that goes through memory keys: memory laid out at random, with or without
// signatures, and what the model says of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "link/simulated_node.h"
#include "memory/signature_model.h"

namespace verbena::sim {

using Bytes = memory::signature_model::Bytes;

// What both ends know of a message.
struct KeyMessage {
  uint64_t data_bytes = 0;
  memory::SignatureDomain wire{};  // none: no signatures on the wire

  [[nodiscard]] uint64_t wire_bytes() const {
    return data_bytes + (wire.present() ? data_bytes / wire.block * wire.bytes() : 0);
  }
};

[[nodiscard]] memory::SignatureDomain draw_signature_domain(RandomSource& random);

// The memory of one host, and what it should hold.
struct KeyMemory {
  link::SimulatedNode* node = nullptr;
  PdId pd{};
  memory::RegionKeys region{};
  std::vector<uint8_t> real{};
  std::vector<uint8_t> wanted{};
};

class KeySide {
 public:
  static constexpr size_t kBytes = 48 * 1024;  // of memory, of which a message fills a part

  KeySide(KeyMemory& memory, size_t from);

  // Chooses a layout for the message; what it holds is as it was.
  void draw(const KeyMessage& message, RandomSource& random);
  // Fills it with data whose signatures are right but for one byte, if `spoiled`.
  void fill(RandomSource& random, bool spoiled);

  [[nodiscard]] Bytes image() const;       // in the order of the layout
  [[nodiscard]] Bytes to_wire() const;     // what leaves when it is the source
  void expect(const Bytes& wire);          // what it must hold when this has come
  [[nodiscard]] bool as_expected() const;  // in its own memory
  void accept();                           // nobody can know what it holds
  // Offset of the block that is told of; none: all is right.
  [[nodiscard]] std::optional<uint64_t> wrong_as_source() const;
  [[nodiscard]] std::optional<uint64_t> wrong_as_sink(const Bytes& wire) const;

  // The keys to be configured before it is used, the one that lies under first. May be none.
  struct Config {
    LKey key;
    memory::KeyConfig config;
  };
  [[nodiscard]] const std::vector<Config>& configs() const { return configs_; }
  [[nodiscard]] memory::Sge sge() const { return sge_; }
  [[nodiscard]] RKey rkey() const { return rkey_; }
  [[nodiscard]] std::optional<memory::SignatureError> take_error();

 private:
  void draw_list(uint64_t total, RandomSource& random, memory::KeyConfig& config) const;
  [[nodiscard]] bool draw_interleave(uint64_t total, RandomSource& random,
                                     memory::KeyConfig& config) const;
  // visit(offset in memory, bytes), in the order of the layout.
  template <typename Visit>
  void walk(Visit&& visit) const;

  KeyMemory& memory_;
  const size_t from_;
  memory::RegionKeys under_;  // used itself, or through `over_`
  memory::RegionKeys over_;
  KeyMessage message_;
  std::optional<memory::Signature> signature_;
  memory::KeyConfig layout_;
  std::vector<Config> configs_;
  memory::Sge sge_;
  RKey rkey_;
};

}  // namespace verbena::sim
