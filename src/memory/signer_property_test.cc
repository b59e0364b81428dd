// SPDX-License-Identifier: Apache-2.0
// Random signatures over random layouts, moved in random pieces, against a model that works on
// whole messages: what is on the wire, what is in memory, and which error is told, never depend on
// the cuts.
#include <algorithm>

#include "memory/domain_test_fixture.h"
#include "memory/signature_model.h"

namespace verbena::memory {
namespace {

using namespace signature_model;

class SignerProperty : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr size_t kArena = 64 * 1024;

  uint64_t draw(uint64_t n) { return random_.next() % n; }

  SignatureDomain random_domain() {
    constexpr std::array<uint32_t, 5> kBlocks{512, 520, 4048, 4096, 4160};
    SignatureDomain domain;
    domain.kind = static_cast<SignatureKind>(draw(6));
    if (!domain.present()) return {};
    domain.block = kBlocks[draw(kBlocks.size())];
    if (draw(2) != 0) {
      domain.seed = domain.kind == SignatureKind::kCrc64 ? ~uint64_t{0}
                    : is_dif(domain.kind)                ? 0xffff
                                                         : 0xffffffff;
    }
    if (is_dif(domain.kind)) {
      domain.app_tag = draw(4) == 0 ? 0xffff : static_cast<uint16_t>(draw(65536));
      domain.ref_tag = static_cast<uint32_t>(random_.next());
      domain.ref_counts = draw(2) != 0;
      domain.app_escape = draw(2) != 0;
      domain.app_ref_escape = draw(2) != 0;
    }
    return domain;
  }

  Signature random_signature() {
    Signature signature;
    do {
      signature.memory = random_domain();
      signature.wire = draw(3) == 0 ? signature.memory : random_domain();
    } while (!signature.memory.present() && !signature.wire.present());
    if (draw(4) == 0) signature.wire.seed = 0;
    signature.check_mask = draw(3) == 0 ? static_cast<uint8_t>(draw(256)) : 0xff;
    signature.copy_mask = default_copy_mask(signature.memory, signature.wire);
    if (draw(4) == 0 && same_structure(signature.memory, signature.wire)) {
      signature.copy_mask = static_cast<uint8_t>(draw(256));
    }
    return signature;
  }

  // Often where a block of memory, or its signature, ends.
  size_t random_length() {
    const size_t any = 1 + draw(20'000);
    const SignatureDomain& memory = signature_.memory;
    if (!memory.present() || draw(2) == 0) return any;
    const size_t unit = memory.block + memory.bytes();
    return any / unit * unit + memory.block + draw(memory.bytes() + 2);
  }

  // Pieces of the arena in a random order that do not overlap, `total` bytes in all.
  std::vector<KeyBlock> random_layout(size_t total) {
    const size_t pieces = 1 + draw(12);
    std::vector<KeyBlock> blocks;
    std::vector<size_t> lengths;
    size_t left = total;
    for (size_t i = 0; i + 1 < pieces && left > 1; ++i) {
      lengths.push_back(1 + draw(std::max<size_t>(2 * total / pieces, 2)));
      lengths.back() = std::min(lengths.back(), left - 1);
      left -= lengths.back();
    }
    lengths.push_back(left);
    size_t at = draw(64);
    for (const size_t length : lengths) {
      blocks.push_back({at, static_cast<uint32_t>(length), 0, region_.lkey});
      at += length + draw(32);
    }
    EXPECT_LE(at, kArena);
    for (size_t i = blocks.size(); i > 1; --i) std::swap(blocks[i - 1], blocks[draw(i)]);
    return blocks;
  }

  Bytes memory_image(const std::vector<KeyBlock>& blocks) const {
    Bytes all;
    for (const KeyBlock& block : blocks) {
      all.insert(all.end(), arena_.begin() + static_cast<ptrdiff_t>(block.addr),
                 arena_.begin() + static_cast<ptrdiff_t>(block.addr + block.bytes));
    }
    return all;
  }
  void set_memory(const std::vector<KeyBlock>& blocks, const Bytes& bytes) {
    size_t at = 0;
    for (const KeyBlock& block : blocks) {
      const size_t n = std::min<size_t>(block.bytes, bytes.size() - at);
      std::memcpy(arena_.data() + block.addr, bytes.data() + at, n);
      at += n;
    }
  }

  void SetUp() override {
    for (uint8_t& byte : arena_) byte = static_cast<uint8_t>(random_.next());
    region_ =
        domain_
            .register_region(
                pd_, {.base = arena_.data(), .length = kArena, .iova = 0, .access = kLocalWrite})
            .value();
    keys_ = domain_.create_key(pd_, {.max_entries = 64, .signature = true}).value();
    signature_ = random_signature();
    blocks_ = random_layout(random_length());
    KeyConfig config;
    config.access = kLocalWrite | kRemoteRead | kRemoteWrite;
    config.has_layout = true;
    config.blocks = blocks_;
    config.signature = signature_;
    ASSERT_EQ(domain_.configure_key(keys_.lkey, pd_, config), Fault::kNone);
  }

  // Most are right, so that the wrong one is not always the first.
  void spoil(Bytes& bytes) {
    for (uint64_t n = draw(3); n > 0 && !bytes.empty(); --n) {
      bytes[draw(bytes.size())] ^= static_cast<uint8_t>(1 + draw(255));
    }
  }

  void expect_error(std::optional<uint64_t> offset) {
    const auto error = domain_.take_signature_error(keys_.lkey).value();
    EXPECT_EQ(error.has_value(), offset.has_value());
    if (error && offset) {
      EXPECT_EQ(error->offset, *offset);
    }
    EXPECT_FALSE(domain_.take_signature_error(keys_.lkey).value());
  }

  SeededRandom random_{GetParam()};
  Domain domain_{random_, {}};
  PdId pd_ = domain_.allocate_pd().value();
  RemoteUser user_{.pd = pd_, .qpn = Qpn(5)};
  Bytes arena_ = Bytes(kArena);
  RegionKeys region_;
  RegionKeys keys_;
  std::vector<KeyBlock> blocks_;
  Signature signature_;
};

TEST_P(SignerProperty, OutOfMemory) {
  // Memory that is right, but for a few bytes.
  Bytes image = memory_image(blocks_);
  Model model = apart(signature_.memory, image);
  Bytes right = together(signature_.memory, model.data, {}, 0);
  right.resize(image.size());
  spoil(right);
  set_memory(blocks_, right);
  model = apart(signature_.memory, right);
  const Bytes wire = together(signature_.wire, model.data, model.signatures, signature_.copy_mask);

  Bytes sent;
  while (sent.size() < wire.size()) {
    const size_t n = std::min<size_t>(1 + draw(draw(2) == 0 ? 9 : 4096), wire.size() - sent.size());
    if (draw(5) == 0) {
      // A packet goes out again: what it says must be the same.
      const size_t from = draw(sent.size() + 1);
      Bytes room(4096);
      Pieces pieces(room);
      const size_t again = std::min<size_t>(draw(4096), sent.size() - from);
      ASSERT_EQ(domain_.remote_read(user_, keys_.rkey, RemoteAddr(from),
                                    static_cast<uint32_t>(again), pieces),
                Fault::kNone);
      Bytes got;
      for (const auto piece : pieces.list()) got.insert(got.end(), piece.begin(), piece.end());
      ASSERT_EQ(got, Bytes(wire.begin() + static_cast<ptrdiff_t>(from),
                           wire.begin() + static_cast<ptrdiff_t>(from + again)));
    }
    Bytes room(4096);
    Pieces pieces(room);
    ASSERT_EQ(domain_.remote_read(user_, keys_.rkey, RemoteAddr(sent.size()),
                                  static_cast<uint32_t>(n), pieces),
              Fault::kNone);
    for (const auto piece : pieces.list()) sent.insert(sent.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(sent, wire);
  expect_error(first_wrong(signature_.memory, signature_.check_mask, model));
  Bytes room(4096);
  Pieces pieces(room);
  EXPECT_EQ(domain_.remote_read(user_, keys_.rkey, RemoteAddr(wire.size()), 1, pieces),
            Fault::kOutOfBounds)
      << "the range is as long as what is on the wire";
}

TEST_P(SignerProperty, IntoMemory) {
  const Bytes before = memory_image(blocks_);
  const size_t data_bytes = apart(signature_.memory, before).data.size();
  Bytes data(data_bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random_.next());
  Bytes wire = together(signature_.wire, data, {}, 0);
  spoil(wire);
  const Model model = apart(signature_.wire, wire);
  const Bytes wanted =
      together(signature_.memory, model.data, model.signatures, signature_.copy_mask);

  size_t at = 0;
  while (at < wire.size()) {
    const size_t n = std::min<size_t>(1 + draw(draw(2) == 0 ? 9 : 4096), wire.size() - at);
    ASSERT_EQ(domain_.remote_write(user_, keys_.rkey, RemoteAddr(at),
                                   std::span(wire).subspan(at, n), at + n == wire.size()),
              Fault::kNone);
    at += n;
  }
  const Bytes after = memory_image(blocks_);
  // What is left at the end, too short for a signature, keeps what it had.
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), after.begin()));
  EXPECT_TRUE(std::equal(after.begin() + static_cast<ptrdiff_t>(wanted.size()), after.end(),
                         before.begin() + static_cast<ptrdiff_t>(wanted.size())));
  expect_error(first_wrong(signature_.wire, signature_.check_mask, model));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SignerProperty, ::testing::Range<uint64_t>(1, 151));

}  // namespace
}  // namespace verbena::memory
