// SPDX-License-Identifier: Apache-2.0
// The rule of visibility (move.h), seen from the program that waits for a message.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/domain_test_fixture.h"
#include "memory/move.h"

namespace verbena::memory {
namespace {

// The order of stores, without luck: the final unit lies on a page that cannot be written, so the
// store of it traps, and the trap looks at the bytes before it.
class StoreOrderTest : public ::testing::Test {
 protected:
  static inline const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  static inline uint8_t* pages = nullptr;  // body ends with the first, the unit begins the second
  static inline size_t body_bytes = 0;
  static inline size_t body_seen = 0;
  static inline int traps = 0;

  static void on_trap(int) {
    ++traps;
    body_seen =
        static_cast<size_t>(std::count(pages + kPage - body_bytes, pages + kPage, uint8_t{0xaa}));
    mprotect(pages + kPage, kPage, PROT_READ | PROT_WRITE);
  }
  void SetUp() override {
    void* const memory =
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    pages = static_cast<uint8_t*>(memory);
    struct sigaction action{};
    action.sa_handler = on_trap;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(pages, 2 * kPage);
  }
  struct sigaction before_{};
};

TEST_F(StoreOrderTest, TheFinalUnitIsStoredAfterAllOthers) {
  for (const size_t unit : {8, 4, 2, 1}) {
    for (body_bytes = 0; body_bytes <= 4096; body_bytes += body_bytes < 100 ? 1 : 37) {
      std::memset(pages, 0, kPage + unit);
      ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_READ), 0);
      traps = 0;
      store(pages + kPage - body_bytes, std::vector<uint8_t>(body_bytes + unit, 0xaa), true);
      ASSERT_EQ(traps, 1);
      ASSERT_EQ(body_seen, body_bytes) << "unit " << unit;
    }
  }
}

// Two threads: one is the device, the other the program.
class VisibilityTest : public DomainTest {
 protected:
  static constexpr auto kTime = std::chrono::milliseconds(150);
  static constexpr uint64_t kMinRounds = 20;
  static constexpr size_t kLongest = 4097;

  struct Round {
    size_t at = 0;
    size_t n = 0;
    size_t watched = 0;
    uint8_t value = 0;
  };

  // The device's side: `deliver` brings n bytes of the value to arena_[at...], of which `ending(n)`
  // come in the last packet or entry. The program's side waits on a byte of the final unit, and
  // then finds all others there.
  template <typename Ending, typename Deliver>
  void litmus(Ending&& ending, Deliver&& deliver);

  // Waits for `counter` to reach `value`, or for `stop`.
  static bool await(const std::atomic<uint64_t>& counter, uint64_t value,
                    const std::atomic<bool>* stop = nullptr) {
    for (int spins = 0; counter.load(std::memory_order_acquire) < value; ++spins) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return false;
      if (spins % 64 == 63) std::this_thread::yield();
    }
    return true;
  }
  // How many bytes of the message are not there when one of the final unit is.
  uint64_t watch(const Round& round) {
    std::atomic_ref<uint8_t> flag(arena_[round.watched]);
    for (int spins = 0; flag.load(std::memory_order_acquire) != round.value; ++spins) {
      if (spins % 64 == 63) std::this_thread::yield();
    }
    uint64_t missing = 0;
    for (size_t i = round.at; i < round.at + round.n; ++i) {
      // Relaxed, not plain: ThreadSanitizer knows no acquire of one byte of a released word.
      missing += __atomic_load_n(&arena_[i], __ATOMIC_RELAXED) == round.value ? 0 : 1;
    }
    return missing;
  }
};

template <typename Ending, typename Deliver>
void VisibilityTest::litmus(Ending&& ending, Deliver&& deliver) {
  Round round;
  // Each is stored with release and awaited with acquire; what it hands over:
  std::atomic<uint64_t> turn{0};   // `round`, to the program
  std::atomic<uint64_t> ready{0};  // the arena, cleared, to the device
  std::atomic<uint64_t> seen{0};   // the arena again, for the next round
  std::atomic<bool> stop{false};
  uint64_t early = 0;
  std::thread program([&] {
    for (uint64_t current = 1; await(turn, current, &stop); ++current) {
      // Cleared by the program, so that the device's stores find the lines in the other CPU's
      // cache: those to different lines then arrive in any order that nothing forbids.
      std::memset(arena_, 0, kLongest + 64);
      ready.store(current, std::memory_order_release);
      early += watch(round);
      seen.store(current, std::memory_order_release);
    }
  });
  const auto end = std::chrono::steady_clock::now() + kTime;
  uint64_t current = 0;
  while (current < kMinRounds || std::chrono::steady_clock::now() < end) {
    round.n = random_.below(4) == 0 ? 1 + random_.below(kLongest) : 1 + random_.below(256);
    round.at = random_.below(64);
    const size_t end_at = round.at + round.n;
    const size_t ends = ending(round.n);
    round.watched = end_at - 1 - random_.below(final_unit(arena_ + end_at - ends, ends));
    round.value = static_cast<uint8_t>(1 + current % 255);
    const std::vector<uint8_t> message(round.n, round.value);
    turn.store(++current, std::memory_order_release);
    (void)await(ready, current);
    // All but the last line, which this CPU takes now: a store to it would be the first to be seen.
    __atomic_store_n(&arena_[round.watched], uint8_t{0}, __ATOMIC_SEQ_CST);
    deliver(round.at, message);
    (void)await(seen, current);
  }
  stop.store(true, std::memory_order_relaxed);
  program.join();
  EXPECT_EQ(early, 0u) << "in " << current << " rounds";
  RecordProperty("rounds", static_cast<int>(current));
  std::memcpy(expected_, arena_, sizeof arena_);
}

TEST_F(VisibilityTest, OneStore) {
  litmus([](size_t n) { return n; },
         [&](size_t at, std::span<const uint8_t> bytes) { store(arena_ + at, bytes, true); });
}

TEST_F(VisibilityTest, ARemoteWriteOfSeveralPackets) {
  const RKey rkey = region(0, 8192).rkey;
  litmus([](size_t n) { return (n - 1) % 256 + 1; },
         [&](size_t at, std::span<const uint8_t> bytes) {
           for (size_t done = 0; done < bytes.size(); done += 256) {
             const size_t n = std::min<size_t>(256, bytes.size() - done);
             ASSERT_EQ(domain_.remote_write(user_, rkey, RemoteAddr{kIova + at + done},
                                            bytes.subspan(done, n), done + n == bytes.size()),
                       Fault::kNone);
           }
         });
}

TEST_F(VisibilityTest, AScatterOverSeveralEntries) {
  const LKey lkey = region(0, 8192).lkey;
  litmus([](size_t n) { return n - n / 2; },
         [&](size_t at, std::span<const uint8_t> bytes) {
           // Three entries, with empty ones between and behind.
           const auto n = static_cast<uint32_t>(bytes.size());
           const uint32_t first = n / 3;
           const uint32_t second = n / 2;
           const Sge list[] = {{.addr = kIova + at, .length = first, .lkey = lkey},
                               {},
                               {.addr = kIova + at + first, .length = second - first, .lkey = lkey},
                               {.addr = kIova + at + second, .length = n - second, .lkey = lkey},
                               {}};
           ASSERT_EQ(domain_.scatter(pd_, list, 0, bytes, true), Fault::kNone);
         });
}

// What ThreadSanitizer can see of the release: the program acquires the whole final unit, then
// reads the other bytes plainly. Without the release that is a data race. (In memory that is new:
// of what the device's thread has stored plainly before, ThreadSanitizer may remember that alone.)
TEST_F(VisibilityTest, AProgramThatAcquiresTheFinalUnitReadsTheRestPlainly) {
  constexpr size_t kBody = 96;
  const auto message_ends_in = []<typename Unit>(Unit) {
    constexpr uint8_t kRounds = 50;
    const std::unique_ptr<uint64_t[]> memory(new uint64_t[kBody / 8 + 1]);
    auto* const bytes = reinterpret_cast<uint8_t*>(memory.get());
    std::atomic_ref<Unit> flag(*reinterpret_cast<Unit*>(bytes + kBody));
    flag.store(0, std::memory_order_relaxed);
    std::atomic<uint64_t> seen{0};  // by release: the memory, for the next round
    uint64_t wrong = 0;
    std::thread program([&] {
      for (uint8_t value = 1; value <= kRounds; ++value) {
        Unit expected = 0;
        std::memset(&expected, value, sizeof expected);
        for (int spins = 0; flag.load(std::memory_order_acquire) != expected; ++spins) {
          if (spins % 64 == 63) std::this_thread::yield();
        }
        for (size_t i = 0; i < kBody; ++i) wrong += bytes[i] == value ? 0 : 1;
        seen.store(value, std::memory_order_release);
      }
    });
    for (uint8_t value = 1; value <= kRounds; ++value) {
      store(bytes, std::vector<uint8_t>(kBody + sizeof(Unit), value), true);
      (void)await(seen, value);
    }
    program.join();
    EXPECT_EQ(wrong, 0u);
  };
  message_ends_in(uint64_t{});
  message_ends_in(uint32_t{});
  message_ends_in(uint16_t{});
  message_ends_in(uint8_t{});
}

// A word that ends a message, or is one, is never seen half written.
TEST_F(VisibilityTest, AnAlignedWordIsNeverTorn) {
  for (const size_t n : {8, 16, 40, 4096}) {
    std::atomic_ref<uint64_t> flag(*reinterpret_cast<uint64_t*>(arena_ + 4096 - 8));
    flag.store(0);
    std::atomic<bool> stop{false};
    uint64_t torn = 0;
    std::thread program([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const uint64_t word = flag.load(std::memory_order_relaxed);
        if (word != 0 && word != ~uint64_t{0}) ++torn;
      }
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
    const std::vector<uint8_t> ones(n, 0xff);
    const std::vector<uint8_t> zeros(n, 0);
    do {
      for (int i = 0; i < 100; ++i) {
        store(arena_ + 4096 - n, ones, /*last=*/n > 8);
        store(arena_ + 4096 - n, zeros, /*last=*/n > 8);
      }
    } while (std::chrono::steady_clock::now() < end);
    stop.store(true, std::memory_order_relaxed);
    program.join();
    EXPECT_EQ(torn, 0u) << n;
  }
  std::memcpy(expected_, arena_, sizeof arena_);
}

}  // namespace
}  // namespace verbena::memory
