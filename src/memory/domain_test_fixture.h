// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a domain over a small arena whose every byte is compared, a
// fake of on-demand memory, and words for the usual calls.
#pragma once

#include <cstdint>
#include <cstring>
#include <ostream>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/result.h"
#include "memory/domain.h"

namespace verbena::memory {

inline std::ostream& operator<<(std::ostream& out, Fault fault) { return out << to_string(fault); }
inline std::ostream& operator<<(std::ostream& out, Error error) { return out << to_string(error); }

// Why there is no value; fails the test where there is one.
template <typename T, typename E>
E reason(const Result<T, E>& result) {
  EXPECT_FALSE(result.has_value());
  return result.has_value() ? E{} : result.error();
}

// Memory of which single pages can be missing. Counts the calls, so that a test can tell that it
// was asked.
class FakeAccessor final : public Accessor {
 public:
  static constexpr uintptr_t kPageBytes = 256;

  void remove_page(const uint8_t* at) { missing_.insert(page(at)); }
  [[nodiscard]] Fault read(const uint8_t* from, std::span<uint8_t> to) override {
    ++reads;
    if (!present(from, to.size())) return Fault::kPage;
    std::memcpy(to.data(), from, to.size());
    return Fault::kNone;
  }
  [[nodiscard]] Fault write(uint8_t* to, std::span<const uint8_t> from) override {
    write_sizes.push_back(from.size());
    if (read_only || !present(to, from.size())) return Fault::kPage;
    std::memcpy(to, from.data(), from.size());
    return Fault::kNone;
  }

  int reads = 0;
  bool read_only = false;
  std::vector<size_t> write_sizes;

 private:
  static uintptr_t page(const uint8_t* at) { return reinterpret_cast<uintptr_t>(at) / kPageBytes; }
  [[nodiscard]] bool present(const uint8_t* at, size_t n) const {
    for (uintptr_t p = page(at); p <= page(at + n - 1); ++p) {
      if (missing_.contains(p)) return false;
    }
    return true;
  }
  std::set<uintptr_t> missing_;
};

class DomainTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kAll =
      kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kMwBind;
  static constexpr uint64_t kIova = 0x10000;

  DomainTest() {
    for (size_t i = 0; i < sizeof arena_; ++i) arena_[i] = static_cast<uint8_t>(i * 7);
    std::memcpy(expected_, arena_, sizeof arena_);
    pd_ = domain_.allocate_pd().value();
    other_pd_ = domain_.allocate_pd().value();
    user_ = {.pd = pd_, .qpn = Qpn{17}};
  }

  // A region of `length` bytes that begins at arena_[at] and is known by kIova.
  RegionKeys region(size_t at, uint64_t length, uint32_t access = kAll) {
    return domain_
        .register_region(pd_,
                         {.base = arena_ + at, .length = length, .iova = kIova, .access = access})
        .value();
  }
  // The same over memory behind an accessor, at the arena's start.
  RegionKeys on_demand_region(Accessor& accessor) {
    return domain_
        .register_region(pd_, {.base = arena_,
                               .length = 4096,
                               .iova = kIova,
                               .access = kAll | kOnDemand,
                               .accessor = &accessor})
        .value();
  }
  RKey window(WindowType type) { return domain_.allocate_window(pd_, type).value(); }

  // The payload as one string of bytes.
  static std::vector<uint8_t> flat(const Pieces& pieces) {
    std::vector<uint8_t> all;
    for (const auto& piece : pieces.list()) all.insert(all.end(), piece.begin(), piece.end());
    EXPECT_EQ(all.size(), pieces.bytes());
    return all;
  }
  std::vector<uint8_t> arena_bytes(size_t at, size_t n) const {
    return {arena_ + at, arena_ + at + n};
  }
  // After each write the test says what should have changed; nothing else may have.
  void expect_write(size_t at, std::span<const uint8_t> bytes) {
    std::memcpy(expected_ + at, bytes.data(), bytes.size());
  }
  void TearDown() override { EXPECT_EQ(std::memcmp(arena_, expected_, sizeof arena_), 0); }

  SeededRandom random_{1};
  Domain domain_{random_, {}};
  PdId pd_;
  PdId other_pd_;
  RemoteUser user_;
  alignas(4096) uint8_t arena_[16384];
  uint8_t expected_[sizeof arena_];
  uint8_t staging_[8192]{};
};

}  // namespace verbena::memory
