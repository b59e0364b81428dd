// SPDX-License-Identifier: Apache-2.0
// A peer's atomics against the host's own: every one counts, once.
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

class AtomicsTest : public DomainTest {
 protected:
  static constexpr auto kTime = std::chrono::milliseconds(50);

  AtomicsTest() : rkey_(region(0, 4096).rkey), word_(*reinterpret_cast<uint64_t*>(arena_)) {
    word_.store(0);
  }
  // Repeats `host` in two threads of the program and `device` in this one, as the engine's lock
  // would have it. Gives how many times they were done, all together.
  template <typename Host, typename Device>
  uint64_t race(Host&& host, Device&& device) {
    std::atomic<uint64_t> done{0};
    std::barrier start(3);
    const auto repeat = [&](auto& action) {
      start.arrive_and_wait();
      const auto end = std::chrono::steady_clock::now() + kTime;
      do {
        for (int i = 0; i < 1000; ++i) action();
        done += 1000;
      } while (std::chrono::steady_clock::now() < end);
    };
    std::thread first([&] { repeat(host); });
    std::thread second([&] { repeat(host); });
    repeat(device);
    first.join();
    second.join();
    return done;
  }
  uint64_t atomic(AtomicOp op, uint64_t swap_add, uint64_t compare = 0) {
    return domain_.remote_atomic(user_, rkey_, RemoteAddr{kIova}, op, swap_add, compare).value();
  }
  void expect_final(uint64_t value) {
    EXPECT_EQ(word_.load(), value);
    std::memcpy(expected_, &value, sizeof value);
  }
  RKey rkey_;
  std::atomic_ref<uint64_t> word_;
};

TEST_F(AtomicsTest, FetchAddAgainstFetchAdd) {
  expect_final(
      race([this] { word_.fetch_add(1); }, [this] { (void)atomic(AtomicOp::kFetchAdd, 1); }));
}

TEST_F(AtomicsTest, CompareSwapAgainstFetchAdd) {
  uint64_t guess = 0;
  expect_final(race([this] { word_.fetch_add(1); },
                    [&] {
                      for (;;) {
                        const uint64_t old = atomic(AtomicOp::kCompareSwap, guess + 1, guess);
                        const bool swapped = old == guess;
                        guess = swapped ? guess + 1 : old;
                        if (swapped) return;
                      }
                    }));
}

TEST_F(AtomicsTest, FetchAddAgainstCompareSwap) {
  expect_final(race(
      [this] {
        uint64_t old = word_.load();
        while (!word_.compare_exchange_weak(old, old + 1)) {}
      },
      [this] { (void)atomic(AtomicOp::kFetchAdd, 1); }));
}

// A lock in host memory that host threads take with exchange and the peer with compare-swap: what
// it guards is only ever touched by its holder (ThreadSanitizer checks that too).
TEST_F(AtomicsTest, APeerAndTheHostShareALock) {
  uint64_t guarded = 0;
  const uint64_t done = race(
      [&] {
        while (word_.exchange(1) != 0) std::this_thread::yield();
        ++guarded;
        word_.store(0);
      },
      [&] {
        const uint8_t zeros[8]{};
        while (atomic(AtomicOp::kCompareSwap, 1, 0) != 0) std::this_thread::yield();
        ++guarded;
        // Given back by an ATOMIC WRITE.
        ASSERT_EQ(domain_.remote_atomic_write(user_, rkey_, RemoteAddr{kIova}, zeros),
                  Fault::kNone);
      });
  EXPECT_EQ(guarded, done);
  expect_final(0);
}

}  // namespace
}  // namespace verbena::memory
