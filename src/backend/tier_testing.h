// SPDX-License-Identifier: Apache-2.0
// For tests of tiers: whole objects as bytes, written and read in parts, and a folder that goes
// away.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/tier.h"
#include "base/random.h"
#include "store/crc_parts.h"

namespace verbena::backend {

using Bytes = std::vector<uint8_t>;

inline Bytes random_bytes(RandomSource& random, size_t size) {
  Bytes bytes(size + 8);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t number = random.next();
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
  bytes.resize(size);
  return bytes;
}

[[nodiscard]] inline size_t part_count(size_t size) { return (size + kPartBytes - 1) / kPartBytes; }

// Parts [first, first + count) of the object that is `bytes`.
[[nodiscard]] inline Result<void> put_parts(Update& update, const Bytes& bytes, size_t first,
                                            size_t count) {
  Bytes padded(count * kPartBytes);
  const size_t begin = first * kPartBytes;
  const size_t end = std::min(bytes.size(), begin + padded.size());
  std::copy(bytes.begin() + static_cast<ptrdiff_t>(begin),
            bytes.begin() + static_cast<ptrdiff_t>(end), padded.begin());
  std::vector<PartToPut> parts;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const part = padded.data() + i * kPartBytes;
    parts.push_back({part, store::crc_of({part, kPartBytes})});
  }
  return update.put(first, parts);
}

// All of it.
[[nodiscard]] inline Result<void> write_object(Tier& tier, const Key& key, const NewState& wanted,
                                               const Bytes& bytes) {
  auto update = tier.update(key, wanted);
  if (!update) return fail(update.error());
  if (auto put = put_parts(**update, bytes, 0, part_count(bytes.size())); !put) return put;
  return (*update)->commit();
}

[[nodiscard]] inline Result<Bytes> read_object(Tier& tier, const Key& key) {
  auto state = tier.state(key);
  if (!state) return fail(state.error());
  Bytes bytes(part_count(state->size) * kPartBytes);
  std::vector<PartToLoad> parts;
  for (size_t at = 0; at < bytes.size(); at += kPartBytes) parts.push_back({bytes.data() + at, 0});
  if (auto loaded = tier.load(key, state->version, 0, parts); !loaded) return fail(loaded.error());
  for (const PartToLoad& part : parts) {
    EXPECT_EQ(part.crc, store::crc_of({part.bytes, kPartBytes}));
  }
  bytes.resize(state->size);
  return bytes;
}

// A folder of its own for each test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "verbena-tier-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace verbena::backend
