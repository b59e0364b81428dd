// SPDX-License-Identifier: Apache-2.0
// Every kind of signature, with every block size, on either side of a key, between two processes:
// made, checked, stripped; what was spoilt is told with its place and both values, once.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "end.h"

namespace verbena::keys_test {
namespace {

using Bytes = std::vector<uint8_t>;

class Signatures : public ::testing::Test {
 protected:
  static uint8_t* shared() {
    void* const at =
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<uint8_t*>(at);
  }
  static void SetUpTestSuite() {
    theirs_ = shared();
    ours_ = shared();
    other_ = new Other(theirs_);  // before this process has a device: a child has none of it
    end_ = new End(ours_);
    other_->connect(*end_);
  }
  static void TearDownTestSuite() {
    delete end_;
    delete other_;
    ::munmap(ours_, kMemoryBytes);
    ::munmap(theirs_, kMemoryBytes);
  }

  static Bytes data_of(uint32_t block) {
    Bytes data(size_t{3} * block + 100);
    uint32_t state = block;
    for (uint8_t& byte : data)
      byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    return data;
  }
  static void put(uint8_t* at, const Bytes& bytes) { std::ranges::copy(bytes, at); }
  static Bytes get(const uint8_t* at, size_t n) { return {at, at + n}; }
  static uint32_t size(const Bytes& bytes) { return static_cast<uint32_t>(bytes.size()); }

  template <typename Case>
  void for_all(Case&& each) {
    for (const Kind& kind : all_kinds()) {
      for (const BlockSize& block : kBlockSizes) {
        SCOPED_TRACE(kind.name + ", blocks of " + std::to_string(block.bytes));
        std::memset(theirs_, 0xee, kMemoryBytes);
        std::memset(ours_, 0xdd, kMemoryBytes);
        const Bytes data = data_of(block.bytes);
        each(kind, block, data, with_signatures(kind, block.bytes, data));
        if (HasFatalFailure()) return;
      }
    }
  }
  static void expect_none() { EXPECT_EQ(other_->check().err_type, MLX5DV_MKEY_NO_ERR); }

  static uint8_t* theirs_;
  static uint8_t* ours_;
  static Other* other_;
  static End* end_;
};
uint8_t* Signatures::theirs_ = nullptr;
uint8_t* Signatures::ours_ = nullptr;
Other* Signatures::other_ = nullptr;
End* Signatures::end_ = nullptr;

TEST_F(Signatures, AWriteIsSignedInMemory) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes& data, const Bytes& with) {
    ASSERT_EQ(other_->configure(size(with), &kind, nullptr, block.value), 0);
    put(ours_, data);
    ASSERT_EQ(end_->transfer(IBV_WR_RDMA_WRITE, size(data), other_->rkey()), IBV_WC_SUCCESS);
    EXPECT_EQ(get(theirs_, with.size()), with);
    EXPECT_EQ(theirs_[with.size()], 0xee);
    expect_none();
  });
}

TEST_F(Signatures, AReadIsSignedOnTheWire) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes& data, const Bytes& with) {
    ASSERT_EQ(other_->configure(size(data), nullptr, &kind, block.value), 0);
    put(theirs_, data);
    ASSERT_EQ(end_->transfer(IBV_WR_RDMA_READ, size(with), other_->rkey()), IBV_WC_SUCCESS);
    EXPECT_EQ(get(ours_, with.size()), with);
    EXPECT_EQ(ours_[with.size()], 0xdd);
    expect_none();
  });
}

TEST_F(Signatures, ASendIsSignedOnTheWire) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes& data, const Bytes& with) {
    ASSERT_EQ(other_->configure(size(data), nullptr, &kind, block.value), 0);
    put(theirs_, data);
    end_->post_receive(size(with));
    ASSERT_EQ(other_->send_from_key(size(with)), IBV_WC_SUCCESS);
    ASSERT_EQ(end_->wait(), IBV_WC_SUCCESS);
    EXPECT_EQ(get(ours_, with.size()), with);
    expect_none();
  });
}

TEST_F(Signatures, SignaturesOfMemoryAreCheckedAndStripped) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes& data, const Bytes& with) {
    ASSERT_EQ(other_->configure(size(with), &kind, nullptr, block.value), 0);
    put(theirs_, with);
    ASSERT_EQ(end_->transfer(IBV_WR_RDMA_READ, size(data), other_->rkey()), IBV_WC_SUCCESS);
    EXPECT_EQ(get(ours_, data.size()), data);
    expect_none();
  });
}

TEST_F(Signatures, SignaturesOfBothSidesAreCheckedAndPassedOn) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes&, const Bytes& with) {
    ASSERT_EQ(other_->configure(size(with), &kind, &kind, block.value), 0);
    put(ours_, with);
    ASSERT_EQ(end_->transfer(IBV_WR_RDMA_WRITE, size(with), other_->rkey()), IBV_WC_SUCCESS);
    EXPECT_EQ(get(theirs_, with.size()), with);
    expect_none();
  });
}

// The second block's: a byte of data, and each field of the signature.
TEST_F(Signatures, WhatIsSpoiltIsToldOnce) {
  for_all([](const Kind& kind, const BlockSize& block, const Bytes& data, const Bytes& with) {
    const uint32_t unit = block.bytes + kind.bytes();
    struct Spoil {
      uint32_t at;
      mlx5dv_mkey_err_type error;
    };
    std::vector<Spoil> spoils{{unit + 17, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD},
                              {unit + block.bytes, MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD}};
    if (kind.type == MLX5DV_SIG_TYPE_T10DIF) {
      spoils.push_back({unit + block.bytes + 3, MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG});
      spoils.push_back({unit + block.bytes + 7, MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG});
    }
    for (const Spoil& spoil : spoils) {
      for (const bool from_wire : {true, false}) {
        SCOPED_TRACE("byte " + std::to_string(spoil.at) +
                     (from_wire ? " on the wire" : " in memory"));
        Bytes bad = with;
        bad[spoil.at] ^= 0x40;
        if (from_wire) {
          ASSERT_EQ(other_->configure(size(data), nullptr, &kind, block.value), 0);
          put(ours_, bad);
          ASSERT_EQ(end_->transfer(IBV_WR_RDMA_WRITE, size(bad), other_->rkey()), IBV_WC_SUCCESS);
        } else {
          ASSERT_EQ(other_->configure(size(bad), &kind, nullptr, block.value), 0);
          put(theirs_, bad);
          ASSERT_EQ(end_->transfer(IBV_WR_RDMA_READ, size(data), other_->rkey()), IBV_WC_SUCCESS);
        }
        const mlx5dv_mkey_err error = other_->check();
        EXPECT_EQ(error.err_type, spoil.error);
        EXPECT_EQ(error.err.sig.offset, unit);
        EXPECT_NE(error.err.sig.actual_value, error.err.sig.expected_value);
        expect_none();
      }
    }
  });
}

// As adapters have shown them.
TEST_F(Signatures, KnownValues) {
  const auto kinds = all_kinds();
  const auto find = [&](mlx5dv_sig_crc_type type, uint64_t seed) {
    return *std::ranges::find_if(kinds, [&](const Kind& kind) {
      return kind.type == MLX5DV_SIG_TYPE_CRC && kind.crc.type == type && kind.crc.seed == seed;
    });
  };
  struct Known {
    Kind kind;
    mlx5dv_block_size block;
    uint32_t bytes;
    uint8_t fill;
    Bytes signature;
  };
  const std::vector<Known> known{
      {find(MLX5DV_SIG_CRC_TYPE_CRC32, 0xffffffff),
       MLX5DV_BLOCK_SIZE_4096,
       4096,
       'a',
       {0xb7, 0x2f, 0xb9, 0xaf}},
      {find(MLX5DV_SIG_CRC_TYPE_CRC32C, 0xffffffff),
       MLX5DV_BLOCK_SIZE_4096,
       4096,
       'a',
       {0xa2, 0x4c, 0xc7, 0x26}},
      {find(MLX5DV_SIG_CRC_TYPE_CRC32, 0xffffffff),
       MLX5DV_BLOCK_SIZE_512,
       512,
       'a',
       {0xbc, 0x16, 0xa9, 0xa0}},
      {find(MLX5DV_SIG_CRC_TYPE_CRC64_XP10, 0),
       MLX5DV_BLOCK_SIZE_512,
       512,
       0xa5,
       {0x8c, 0x8a, 0xdb, 0x45, 0x0c, 0xce, 0x85, 0xaa}},
      {*std::ranges::find_if(kinds,
                             [](const Kind& kind) {
                               return kind.type == MLX5DV_SIG_TYPE_T10DIF &&
                                      kind.dif.bg_type == MLX5DV_SIG_T10DIF_CRC &&
                                      kind.dif.bg == 0xffff && kind.dif.app_tag == 0x5678;
                             }),
       MLX5DV_BLOCK_SIZE_512,
       512,
       0xa5,
       {0xec, 0x7d, 0x56, 0x78, 0xf0, 0xde, 0xbc, 0x9a}},
  };
  for (const Known& each : known) {
    SCOPED_TRACE(each.kind.name);
    const auto n = static_cast<uint32_t>(each.bytes + each.signature.size());
    ASSERT_EQ(other_->configure(n, &each.kind, nullptr, each.block), 0);
    std::memset(ours_, each.fill, each.bytes);
    ASSERT_EQ(end_->transfer(IBV_WR_RDMA_WRITE, each.bytes, other_->rkey()), IBV_WC_SUCCESS);
    EXPECT_EQ(get(theirs_ + each.bytes, each.signature.size()), each.signature);
  }
}

}  // namespace
}  // namespace verbena::keys_test
