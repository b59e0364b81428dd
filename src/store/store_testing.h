// SPDX-License-Identifier: Apache-2.0
// What tests of whole stores share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/nvdimm_backend.h"
#include "store/crc_parts.h"
#include "store/store.h"

namespace verbena::store {

using Bytes = std::vector<uint8_t>;
inline constexpr ObjectId kOne{1, 1};
inline constexpr ObjectId kTwo{1, 2};
inline constexpr uint32_t kPerBlock = 64;

inline Bytes pattern(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

// On files, in a folder that is gone afterwards.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "verbena-store-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    make();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::unique_ptr<medium::Backend> backend() const {
    medium::NvdimmOptions options;
    options.files.folder = folder_;
    options.files.block_bytes = kPerBlock * kChunkBytes;
    options.files.capacity = 32;
    auto made = medium::open_nvdimm_backend(options);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    return std::move(*made);
  }
  void make(const Options& options = {}) {
    store_.reset();
    SeededRandom random(7);
    auto made = Store::create(backend(), options, random);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
  }
  OpenReport reopen() {
    EXPECT_TRUE(store_->close().has_value());
    store_.reset();
    OpenReport report;
    auto made = Store::open(backend(), {}, &report);
    EXPECT_TRUE(made.has_value()) << made.error().what;
    if (made) store_ = std::move(*made);
    return report;
  }
  void write(ObjectId id, uint64_t offset, const Bytes& bytes) {
    const auto done = store_->write(id, offset, bytes);
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  [[nodiscard]] Bytes read(ObjectId id, uint64_t offset, size_t size) const {
    Bytes bytes(size);
    uint32_t crc = 0;
    const auto done = store_->read(id, offset, bytes, &crc);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    if (!done) return {};
    bytes.resize(*done);
    EXPECT_EQ(crc, crc_of(bytes));
    return bytes;
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

}  // namespace verbena::store
