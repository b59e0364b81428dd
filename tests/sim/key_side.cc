// SPDX-License-Identifier: Apache-2.0
#include "sim/key_side.h"

#include <algorithm>
#include <array>

namespace verbena::sim {

using memory::KeyBlock;
using memory::KeyConfig;
using memory::SignatureDomain;
using memory::SignatureKind;

SignatureDomain draw_signature_domain(RandomSource& random) {
  SignatureDomain domain;
  domain.kind = static_cast<SignatureKind>(1 + random.below(5));
  constexpr std::array<uint32_t, 5> kBlocks{512, 512, 520, 4048, 4096};
  domain.block = kBlocks[random.below(kBlocks.size())];
  if (random.below(2) == 0) {
    domain.seed = domain.kind == SignatureKind::kCrc64 ? ~uint64_t{0}
                  : is_dif(domain.kind)                ? 0xffff
                                                       : 0xffffffff;
  }
  if (is_dif(domain.kind)) {
    domain.app_tag = static_cast<uint16_t>(random.below(0xffff));
    domain.ref_tag = static_cast<uint32_t>(random.next());
    domain.ref_counts = random.below(2) == 0;
  }
  return domain;
}

KeySide::KeySide(KeyMemory& memory, size_t from) : memory_(memory), from_(from) {
  const memory::KeySpec spec{.max_entries = 4096, .signature = true, .remote_invalidate = true};
  under_ = memory.node->memory().create_key(memory.pd, spec).value();
  over_ = memory.node->memory().create_key(memory.pd, spec).value();
}

void KeySide::draw(const KeyMessage& message, RandomSource& random) {
  message_ = message;
  signature_.reset();
  configs_.clear();
  layout_ = {};
  layout_.has_layout = true;
  layout_.access = memory::kLocalWrite | memory::kRemoteRead | memory::kRemoteWrite;
  layout_.start = random.below(2) == 0 ? 0 : random.below(1 << 20);
  layout_.reset_signature = true;
  const SignatureDomain in_memory = random.below(3) == 0   ? message.wire
                                    : random.below(2) == 0 ? draw_signature_domain(random)
                                                           : SignatureDomain{};
  uint64_t total = message.wire_bytes();
  if (random.below(4) != 0 && (in_memory.present() || message.wire.present())) {
    const uint8_t copy = default_copy_mask(in_memory, message.wire);
    signature_ = memory::Signature{in_memory, message.wire, 0xff, copy};
    layout_.signature = signature_;
    const uint64_t data = message.data_bytes;
    total = data + (in_memory.present() ? data / in_memory.block * in_memory.bytes() : 0);
  }
  const bool interleaved = random.below(2) == 0 && draw_interleave(total, random, layout_);
  if (!interleaved) draw_list(total, random, layout_);
  const auto wire_bytes = static_cast<uint32_t>(message.wire_bytes());
  if (layout_.blocks.size() == 1 && !signature_ && !interleaved) {
    sge_ = {layout_.blocks[0].addr, wire_bytes, memory_.region.lkey};
    rkey_ = memory_.region.rkey;
    return;
  }
  configs_.push_back({under_.lkey, layout_});
  sge_ = {*layout_.start, wire_bytes, under_.lkey};
  rkey_ = under_.rkey;
  if (random.below(3) != 0) return;
  // Through another that lies over it.
  KeyConfig over;
  over.has_layout = true;
  over.access = layout_.access;
  over.start = 0;
  const auto first = static_cast<uint32_t>(random.below(wire_bytes) + 1);
  over.blocks.push_back({*layout_.start, first, 0, under_.lkey});
  over.blocks.push_back({*layout_.start + first, wire_bytes - first, 0, under_.lkey});
  configs_.push_back({over_.lkey, over});
  sge_ = {0, wire_bytes, over_.lkey};
  rkey_ = over_.rkey;
}

void KeySide::draw_list(uint64_t total, RandomSource& random, KeyConfig& config) const {
  const uint64_t pieces = 1 + random.below(random.below(4) == 0 ? 400 : 8);
  uint64_t left = total;
  uint64_t at = from_ + random.below(64);
  while (left > 0) {
    uint64_t n = std::min(left, 1 + random.below(2 * total / pieces + 1));
    if (config.blocks.size() + 1 >= pieces) n = left;
    config.blocks.push_back({at, static_cast<uint32_t>(n), 0, memory_.region.lkey});
    at += n + random.below(16);
    left -= n;
  }
  for (size_t i = config.blocks.size(); i > 1; --i) {
    std::swap(config.blocks[i - 1], config.blocks[random.below(i)]);
  }
}

bool KeySide::draw_interleave(uint64_t total, RandomSource& random, KeyConfig& config) const {
  uint64_t repeat = 1 + random.below(16);
  while (total % repeat != 0) --repeat;
  const uint64_t period = total / repeat;
  if (period < 2 || period > 8000) return false;
  const auto first = static_cast<uint32_t>(1 + random.below(period - 1));
  const auto second = static_cast<uint32_t>(period - first);
  const auto gap = static_cast<uint32_t>(random.below(8));
  config.interleaved = true;
  config.repeat = repeat;
  // Beside each other, or one array after the other.
  if (random.below(2) == 0) {
    config.blocks.push_back({from_, first, second + gap, memory_.region.lkey});
    config.blocks.push_back({from_ + first, second, first + gap, memory_.region.lkey});
  } else {
    config.blocks.push_back({from_, first, gap, memory_.region.lkey});
    config.blocks.push_back({from_ + repeat * (first + gap), second, gap, memory_.region.lkey});
  }
  return true;
}

template <typename Visit>
void KeySide::walk(Visit&& visit) const {
  for (uint64_t round = 0; round < layout_.repeat; ++round) {
    for (const KeyBlock& block : layout_.blocks) {
      visit(block.addr + round * (uint64_t{block.bytes} + block.skip), uint64_t{block.bytes});
    }
  }
}

Bytes KeySide::image() const {
  Bytes all;
  walk([&](uint64_t at, uint64_t n) {
    const auto begin = memory_.real.begin() + static_cast<ptrdiff_t>(at);
    all.insert(all.end(), begin, begin + static_cast<ptrdiff_t>(n));
  });
  return all;
}

void KeySide::fill(RandomSource& random, bool spoiled) {
  Bytes data(message_.data_bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random.next());
  const SignatureDomain& domain = signature_ ? signature_->memory : message_.wire;
  Bytes all = memory::signature_model::together(domain, data, {}, 0);
  if (spoiled) all[random.below(all.size())] ^= static_cast<uint8_t>(1 + random.below(255));
  size_t done = 0;
  walk([&](uint64_t at, uint64_t n) {
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(done), n,
                memory_.real.begin() + static_cast<ptrdiff_t>(at));
    done += n;
  });
  accept();
}

Bytes KeySide::to_wire() const {
  if (!signature_) return image();
  const auto model = memory::signature_model::apart(signature_->memory, image());
  return memory::signature_model::together(signature_->wire, model.data, model.signatures,
                                           signature_->copy_mask);
}

void KeySide::expect(const Bytes& wire) {
  Bytes all = wire;
  if (signature_) {
    const auto model = memory::signature_model::apart(signature_->wire, wire);
    all = memory::signature_model::together(signature_->memory, model.data, model.signatures,
                                            signature_->copy_mask);
  }
  size_t done = 0;
  walk([&](uint64_t at, uint64_t n) {
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(done), n,
                memory_.wanted.begin() + static_cast<ptrdiff_t>(at));
    done += n;
  });
}

bool KeySide::as_expected() const {
  return std::equal(memory_.real.begin() + static_cast<ptrdiff_t>(from_),
                    memory_.real.begin() + static_cast<ptrdiff_t>(from_ + kBytes),
                    memory_.wanted.begin() + static_cast<ptrdiff_t>(from_));
}

void KeySide::accept() {
  walk([&](uint64_t at, uint64_t n) {
    std::copy_n(memory_.real.begin() + static_cast<ptrdiff_t>(at), n,
                memory_.wanted.begin() + static_cast<ptrdiff_t>(at));
  });
}

std::optional<uint64_t> KeySide::wrong_as_source() const {
  if (!signature_ || !signature_->memory.present()) return std::nullopt;
  const auto model = memory::signature_model::apart(signature_->memory, image());
  return memory::signature_model::first_wrong(signature_->memory, signature_->check_mask, model);
}

std::optional<uint64_t> KeySide::wrong_as_sink(const Bytes& wire) const {
  if (!signature_ || !signature_->wire.present()) return std::nullopt;
  const auto model = memory::signature_model::apart(signature_->wire, wire);
  return memory::signature_model::first_wrong(signature_->wire, signature_->check_mask, model);
}

std::optional<memory::SignatureError> KeySide::take_error() {
  return memory_.node->memory().take_signature_error(under_.lkey).value();
}

}  // namespace verbena::sim
