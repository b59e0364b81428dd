// SPDX-License-Identifier: Apache-2.0
#include "base/block_sums.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bitwise_crc.h"
#include "base/random.h"
#include "base/unique_fd.h"

namespace verbena {
namespace {

using Bytes = std::span<const uint8_t>;

// Each checksum, with its definition: one bit, or one byte, at a time.

template <typename Word, Word kPolynomial>
Word msb_first(Word state, Bytes bytes) {
  return bitwise_crc_msb(kPolynomial, state, bytes);
}
template <typename Word, Word kPolynomial>
Word lsb_first(Word state, Bytes bytes) {
  return bitwise_crc_lsb(kPolynomial, state, bytes);
}

struct Crc32Msb {
  using State = uint32_t;
  static constexpr State kSeed = 0xffffffff;
  static constexpr auto update = crc32_msb_update;
  static constexpr auto copy = crc32_msb_copy;
  static constexpr auto model = msb_first<uint32_t, 0x04c11db7>;
};
struct Crc32c {
  using State = uint32_t;
  static constexpr State kSeed = 0xffffffff;
  static constexpr auto update = crc32c_update;
  static constexpr auto copy = crc32c_copy;
  static constexpr auto model = lsb_first<uint32_t, 0x82f63b78>;
};
struct Crc64 {
  using State = uint64_t;
  static constexpr State kSeed = ~uint64_t{0};
  static constexpr auto update = crc64_update;
  static constexpr auto copy = crc64_copy;
  static constexpr auto model = lsb_first<uint64_t, 0x9a6c9329ac4bc9b5>;
};
struct Crc16T10 {
  using State = uint16_t;
  static constexpr State kSeed = 0x1d0f;
  static constexpr auto update = crc16_t10_update;
  static constexpr auto copy = crc16_t10_copy;
  static constexpr auto model = msb_first<uint16_t, 0x8bb7>;
};
struct Internet {
  using State = InternetSum;
  static constexpr State kSeed = {.sum = 0xffff};
  static constexpr auto update = internet_sum_update;
  static constexpr auto copy = internet_sum_copy;
  static State model(State state, Bytes bytes) {
    for (const uint8_t byte : bytes) {
      state.sum += state.odd ? byte : uint32_t{byte} << 8;
      if (state.sum > 0xffff) state.sum -= 0xffff;
      state.odd = !state.odd;
    }
    return state;
  }
};

std::vector<uint8_t> random_bytes(RandomSource& random, size_t length) {
  std::vector<uint8_t> bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

// A page of memory with nothing readable or writable on either side.
class LonelyPage {
 public:
  LonelyPage()
      : size_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
        all_(static_cast<uint8_t*>(
            ::mmap(nullptr, 3 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(::mprotect(all_ + size_, size_, PROT_READ | PROT_WRITE), 0);
  }
  ~LonelyPage() { ::munmap(all_, 3 * size_); }
  LonelyPage(const LonelyPage&) = delete;
  LonelyPage& operator=(const LonelyPage&) = delete;
  [[nodiscard]] std::span<uint8_t> bytes() const { return {all_ + size_, size_}; }

 private:
  size_t size_;
  uint8_t* all_;
};

template <typename Sum>
class BlockSums : public testing::Test {};
using Sums = testing::Types<Crc32Msb, Crc32c, Crc64, Crc16T10, Internet>;
TYPED_TEST_SUITE(BlockSums, Sums);

TYPED_TEST(BlockSums, AgreeWithTheDefinitionAtEveryLengthAndAlignment) {
  SeededRandom random(1);
  const std::vector<uint8_t> bytes = random_bytes(random, 600);
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t length = 0; length <= 300; ++length) {
      const auto piece = Bytes(bytes).subspan(offset, length);
      for (const auto seed : {typename TypeParam::State{}, TypeParam::kSeed}) {
        ASSERT_EQ(TypeParam::update(seed, piece), TypeParam::model(seed, piece))
            << offset << "+" << length;
      }
    }
  }
}

// Long enough for every way an implementation has of taking many bytes at once.
TYPED_TEST(BlockSums, AgreeWithTheDefinitionWhenLong) {
  SeededRandom random(2);
  const std::vector<uint8_t> bytes = random_bytes(random, 40'000);
  for (size_t length = 300; length < bytes.size(); length += 1 + random.below(500)) {
    const auto piece = Bytes(bytes).subspan(random.below(bytes.size() - length), length);
    ASSERT_EQ(TypeParam::update(TypeParam::kSeed, piece), TypeParam::model(TypeParam::kSeed, piece))
        << length;
  }
}

TYPED_TEST(BlockSums, DoNotDependOnHowAMessageIsCut) {
  SeededRandom random(3);
  std::vector<uint8_t> copy(5000);
  for (int round = 0; round < 500; ++round) {
    const std::vector<uint8_t> bytes = random_bytes(random, random.below(copy.size()));
    auto state = TypeParam::kSeed;
    auto copied = TypeParam::kSeed;
    for (size_t done = 0; done < bytes.size();) {
      const auto piece = Bytes(bytes).subspan(done, random.below(bytes.size() - done + 1));
      state = TypeParam::update(state, piece);
      copied = TypeParam::copy(copied, copy.data() + done, piece);
      done += piece.size();
    }
    ASSERT_EQ(state, TypeParam::update(TypeParam::kSeed, bytes));
    ASSERT_EQ(copied, state);
    ASSERT_TRUE(std::ranges::equal(bytes, std::span(copy).first(bytes.size())));
  }
}

TYPED_TEST(BlockSums, CopyWhatTheyCountAndNoMore) {
  SeededRandom random(4);
  const std::vector<uint8_t> bytes = random_bytes(random, 20'000);
  std::vector<uint8_t> copy(bytes.size() + 16);
  for (size_t length = 0; length < 12'000; length += 1 + random.below(length / 16 + 1)) {
    const size_t to = 1 + random.below(15);
    std::ranges::fill(copy, 0xee);
    const auto piece = Bytes(bytes).subspan(random.below(16), length);
    ASSERT_EQ(TypeParam::copy(TypeParam::kSeed, copy.data() + to, piece),
              TypeParam::update(TypeParam::kSeed, piece))
        << length;
    ASSERT_TRUE(std::ranges::equal(piece, std::span(copy).subspan(to, length))) << length;
    ASSERT_EQ(copy[to - 1], 0xee) << length;
    ASSERT_EQ(copy[to + length], 0xee) << length;
  }
}

TYPED_TEST(BlockSums, TouchNothingBesideTheirBytes) {
  SeededRandom random(5);
  const LonelyPage from;
  const LonelyPage to;
  std::ranges::copy(random_bytes(random, from.bytes().size()), from.bytes().begin());
  for (size_t length = 0; length <= from.bytes().size(); length += 1 + length / 64) {
    for (const Bytes piece : {from.bytes().first(length), from.bytes().last(length)}) {
      const auto target =
          piece.data() == from.bytes().data() ? to.bytes().last(length) : to.bytes().first(length);
      const auto expected = TypeParam::model(TypeParam::kSeed, piece);
      ASSERT_EQ(TypeParam::update(TypeParam::kSeed, piece), expected) << length;
      ASSERT_EQ(TypeParam::copy(TypeParam::kSeed, target.data(), piece), expected) << length;
      ASSERT_TRUE(std::ranges::equal(piece, target)) << length;
    }
  }
}

// The same memory at two addresses.
class TwiceMapped {
 public:
  static constexpr size_t kBytes = 16384;
  TwiceMapped() {
    const UniqueFd file(::memfd_create("twice", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file.get(), kBytes), 0);
    for (uint8_t*& place : places_) {
      place = static_cast<uint8_t*>(
          ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
      EXPECT_NE(place, MAP_FAILED);
    }
  }
  ~TwiceMapped() {
    for (uint8_t* place : places_) ::munmap(place, kBytes);
  }
  TwiceMapped(const TwiceMapped&) = delete;
  TwiceMapped& operator=(const TwiceMapped&) = delete;
  [[nodiscard]] std::span<uint8_t> place(size_t i) const { return {places_[i], kBytes}; }

 private:
  uint8_t* places_[2];
};

// As another's writes would, the copy itself changes the source here: whatever is read of it a
// second time is not what was copied.
TYPED_TEST(BlockSums, AreOfTheCopyWhenTheSourceChanges) {
  SeededRandom random(7);
  const TwiceMapped memory;
  for (const size_t shift : {1, 8, 64, 200, 1024, 5000}) {
    for (const size_t length : {7, 100, 512, 4096, 10'000}) {
      std::ranges::copy(random_bytes(random, TwiceMapped::kBytes), memory.place(0).begin());
      const auto to = memory.place(0).first(length);
      const auto copied =
          TypeParam::copy(TypeParam::kSeed, to.data(), memory.place(1).subspan(shift, length));
      ASSERT_EQ(copied, TypeParam::model(TypeParam::kSeed, to)) << shift << " " << length;
    }
  }
}

TEST(BlockSumValues, AreThoseOfRealAdaptersAndOfTheCatalogue) {
  constexpr uint32_t kOnes = 0xffffffff;
  const std::vector<uint8_t> a5(512, 0xa5);
  EXPECT_EQ(~crc32_msb_update(kOnes, a5), 0x88cb6093u);
  EXPECT_EQ(~crc32_msb_update(0, a5), 0x699aca21u);
  EXPECT_EQ(~crc32c_update(kOnes, a5), 0x7be5157du);
  EXPECT_EQ(~crc32c_update(0, a5), 0xb4e60742u);
  EXPECT_EQ(~crc64_update(0, a5), 0xaa85ce0c45db8a8cu);
  EXPECT_EQ(crc16_t10_update(0xffff, a5), 0xec7d);
  EXPECT_EQ(crc16_t10_update(0, a5), 0x9ec6);

  const std::vector<uint8_t> letters(4096, 'a');
  EXPECT_EQ(~crc32c_update(kOnes, letters), 0x26c74ca2u);
  EXPECT_EQ(~crc32_msb_update(kOnes, letters), 0xb72fb9afu);
  EXPECT_EQ(~crc32_msb_update(kOnes, Bytes(letters).first(512)), 0xbc16a9a0u);

  const std::vector<uint8_t> digits = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ(~crc32_msb_update(kOnes, digits), 0xfc891918u);
  EXPECT_EQ(~crc32c_update(kOnes, digits), 0xe3069283u);
  EXPECT_EQ(~crc64_update(~uint64_t{0}, digits), 0xae8b14860a799888u);
  EXPECT_EQ(crc16_t10_update(0, digits), 0xd0db);
}

TEST(InternetSum, IsTheExampleOfRfc1071) {
  const std::vector<uint8_t> bytes = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(internet_sum_update({}, bytes), (InternetSum{.sum = 0xddf2}));
}

TEST(Crc32Msb, CombineIsTheCrcOfTheConcatenation) {
  const auto crc = [](Bytes bytes) { return ~crc32_msb_update(0xffffffff, bytes); };
  SeededRandom random(6);
  for (int round = 0; round < 500; ++round) {
    const std::vector<uint8_t> all = random_bytes(random, random.below(10'000));
    const size_t cut = random.below(all.size() + 1);
    const auto a = Bytes(all).first(cut);
    const auto b = Bytes(all).subspan(cut);
    ASSERT_EQ(crc32_msb_combine(crc(a), crc(b), b.size()), crc(all));
  }
}

}  // namespace
}  // namespace verbena
