// SPDX-License-Identifier: Apache-2.0
// The litmus test of "all bytes of a message, a release, its last byte": a program that spins on
// the last byte of a WRITE sees every other byte of it. The target never calls into the device; its
// helper thread, or here also another process's, is on the other core.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::SendOp;

constexpr uint64_t kBase = 4096;
constexpr uint32_t kLongest = 4097;

struct Shot {
  uint32_t bytes = 0;
  uint32_t offset = 0;  // alignment of its first byte at the target
};

// Every size once at a changing alignment, every alignment with sizes around words, lines and the
// MTU, and a sample of all the rest.
[[nodiscard]] std::vector<Shot> shots() {
  std::vector<Shot> list;
  for (uint32_t n = 1; n <= kLongest; n += kSanitized ? 13 : 1) list.push_back({n, n * 7 % 64});
  for (uint32_t offset = 0; offset < 64; ++offset) {
    for (const uint32_t n :
         {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 63u, 64u, 65u, 1024u, 4096u, 4097u}) {
      if (!kSanitized || offset % 8 == 1) list.push_back({n, offset});
    }
  }
  SeededRandom random(3);
  const uint64_t sample = repeat(5000, 300);
  for (uint64_t i = 0; i < sample; ++i) {
    list.push_back({static_cast<uint32_t>(1 + random.below(kLongest)),
                    static_cast<uint32_t>(random.below(64))});
  }
  return list;
}

// Neighbouring shots differ in every byte.
[[nodiscard]] uint8_t mark(size_t shot) { return static_cast<uint8_t>(1 + shot % 255); }

void shoot(End& near, const std::vector<Shot>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    std::ranges::fill(near.bytes(kBase, list[i].bytes), mark(i));
    near.post(0, {.op = SendOp::kWrite,
                  .local = kBase,
                  .bytes = list[i].bytes,
                  .remote = kBase + list[i].offset});
    // The target says when it has looked.
    (void)near.hear<char>();
    (void)near.sent();
  }
}

void watch(End& far, const std::vector<Shot>& list) {
  const auto end = std::chrono::steady_clock::now() + 2 * kPatience;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto range = far.bytes(kBase + list[i].offset, list[i].bytes);
    const std::atomic_ref<uint8_t> last(range.back());
    for (uint64_t spins = 0; last.load(std::memory_order_acquire) != mark(i); ++spins) {
      if (spins % 4096 != 4095) continue;
      // The writer's helper may need this core.
      ::sched_yield();
      if (std::chrono::steady_clock::now() > end) throw Broken("the last byte does not come");
    }
    for (size_t at = 0; at < range.size(); ++at) {
      const uint8_t seen = std::atomic_ref(range[at]).load(std::memory_order_relaxed);
      ASSERT_EQ(seen, mark(i)) << "byte " << at << " of " << list[i].bytes << " at alignment "
                               << list[i].offset << " is older than the last one";
    }
    // What is not the next mark, wherever the next one ends.
    std::ranges::fill(far.bytes(kBase, kLongest + 64), uint8_t{0});
    far.tell('.');
  }
}

struct VisibilityCase {
  const char* name;
  bool one_process;
  transport::Mtu mtu;
  link::FaultRates rates;
};
void PrintTo(const VisibilityCase& c, std::ostream* out) { *out << c.name; }

class Visibility : public ::testing::TestWithParam<VisibilityCase> {};

TEST_P(Visibility, TheLastByteComesLast) {
  const VisibilityCase& c = GetParam();
  auto list = shots();
  // Losses cost round trips.
  if (c.rates.loss_ppm != 0) {
    SeededRandom random(5);
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
    list.resize(std::min<size_t>(list.size(), repeat(2000, 150)));
  }
  const PairOptions options{
      .one_process = c.one_process, .mtu = c.mtu, .memory_bytes = 1 << 16, .faults = c.rates};
  run_pair(options, [&](End& near) { shoot(near, list); }, [&](End& far) { watch(far, list); });
}

INSTANTIATE_TEST_SUITE_P(
    Places, Visibility,
    ::testing::Values(VisibilityCase{"TwoProcesses", false, transport::Mtu::k4096, {}},
                      VisibilityCase{"OneProcess", true, transport::Mtu::k1024, {}},
                      VisibilityCase{
                          "Lossy",
                          false,
                          transport::Mtu::k256,
                          {.loss_ppm = 20'000, .duplicate_ppm = 20'000, .reorder_ppm = 20'000}}),
    [](const auto& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace verbena::device::testing
