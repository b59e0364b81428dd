// SPDX-License-Identifier: Apache-2.0
// On-demand regions over memory that is mostly not there. The peer chooses the address: where a
// page exists it gets data, elsewhere a remote access error, and the target lives.
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::QpState;
using transport::SendOp;
using transport::WcStatus;

constexpr uint64_t kSpaceBytes = uint64_t{64} << 30;
constexpr uint32_t kIslands = 64;

// Much address space, with islands of two pages in it.
class Archipelago {
 public:
  Archipelago()
      : page_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))),
        base_(static_cast<uint8_t*>(::mmap(nullptr, kSpaceBytes, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (base_ == MAP_FAILED) throw Broken("no address space");
    for (uint32_t i = 0; i < kIslands; ++i) {
      uint8_t* const at = base_ + island(i);
      must(::mprotect(at, 2 * page_, PROT_READ | PROT_WRITE), "mprotect");
      fill({at, 2 * page_}, i);
      // Half of it may only be read.
      if (i % 2 == 1) must(::mprotect(at, 2 * page_, PROT_READ), "mprotect");
    }
  }
  ~Archipelago() { ::munmap(base_, kSpaceBytes); }
  Archipelago(const Archipelago&) = delete;
  Archipelago& operator=(const Archipelago&) = delete;

  [[nodiscard]] uint8_t* base() const { return base_; }
  [[nodiscard]] uint64_t page() const { return page_; }
  [[nodiscard]] uint64_t island(uint32_t i) const {
    return (kSpaceBytes / kIslands) * i + 8 * page_;
  }

 private:
  uint64_t page_;
  uint8_t* base_;
};

struct Key {
  uint64_t addr = 0;
  RKey rkey;
  uint64_t page = 0;
};

class Sweep {
 public:
  Sweep(End& near, const Key& key) : near_(near), key_(key) {}

  // Posts and gives the status; the connection is made anew, at both ends, after an error.
  [[nodiscard]] WcStatus go(SendOp op, uint64_t address, uint32_t bytes) {
    const std::array<memory::Sge, 1> list{near_.sge(0, bytes)};
    transport::SendRequest request;
    request.op = op;
    request.list = list;
    request.remote_addr = RemoteAddr(address);
    request.rkey = key_.rkey;
    request.compare_add = 0;
    must(near_.context().post_send(near_.qp(0), request), "post_send");
    const WcStatus status = near_.next(near_.send_cq()).status;
    if (status != WcStatus::kSuccess) {
      near_.tell('!');
      near_.connect(0);
      near_.barrier();
    }
    return status;
  }

 private:
  End& near_;
  Key key_;
};

// The far half: mends the connection until told that it is over.
void mend(End& far) {
  while (far.hear<char>() == '!') {
    EXPECT_EQ(far.state(0), QpState::kErr);
    far.connect(0);
    far.barrier();
  }
}

[[nodiscard]] std::unique_ptr<Mr> on_demand(End& far, void* start, uint64_t length) {
  auto mr = far.context().reg_mr(far.pd(), start, length, reinterpret_cast<uint64_t>(start),
                                 memory::kLocalWrite | memory::kOnDemand | kAllRemote);
  must(mr ? 0 : mr.error(), "reg_mr");
  return std::move(*mr);
}

TEST(OnDemand, WhatIsThereIsServedAndTheRestRefused) {
  run_pair(
      {},
      [](End& near) {
        const Key key = near.hear<Key>();
        const uint64_t stride = kSpaceBytes / kIslands;
        const auto island = [&](uint32_t i) { return key.addr + stride * i + 8 * key.page; };
        Sweep sweep(near, key);
        for (uint32_t i = 0; i < kIslands; ++i) {
          SCOPED_TRACE(i);
          const bool writable = i % 2 == 0;
          const auto bytes = static_cast<uint32_t>(2 * key.page);
          EXPECT_EQ(sweep.go(SendOp::kRead, island(i), bytes), WcStatus::kSuccess);
          EXPECT_EQ(differs(near.bytes(0, bytes), i), "");
          const WcStatus stored = writable ? WcStatus::kSuccess : WcStatus::kRemoteAccess;
          EXPECT_EQ(sweep.go(SendOp::kWrite, island(i), bytes), stored);
          EXPECT_EQ(sweep.go(SendOp::kFetchAdd, island(i), 8), stored);
          // Over the edge, and into the sea.
          if (i % 8 > 1) continue;
          EXPECT_EQ(sweep.go(SendOp::kRead, island(i) + bytes - 4, 8), WcStatus::kRemoteAccess);
          EXPECT_EQ(sweep.go(SendOp::kWrite, island(i) - 4, 8), WcStatus::kRemoteAccess);
          EXPECT_EQ(sweep.go(SendOp::kFetchAdd, island(i) + bytes, 8), WcStatus::kRemoteAccess);
        }
        SeededRandom random(11);
        constexpr std::array<SendOp, 3> kOps{SendOp::kRead, SendOp::kWrite, SendOp::kFetchAdd};
        for (uint64_t i = 0; i < repeat(300, 60); ++i) {
          const SendOp op = kOps[i % 3];
          const uint64_t address = key.addr + 8 * random.below(kSpaceBytes / 8 - 2000);
          const uint32_t bytes =
              op == SendOp::kFetchAdd ? 8 : 1 + static_cast<uint32_t>(random.below(9000));
          // Two islands' chance in a million of being somewhere.
          const WcStatus status = sweep.go(op, address, bytes);
          EXPECT_TRUE(status == WcStatus::kRemoteAccess || status == WcStatus::kSuccess)
              << to_string(status);
        }
        near.tell('.');
      },
      [](End& far) {
        const Archipelago space;
        const auto mr = on_demand(far, space.base(), kSpaceBytes);
        far.tell(Key{reinterpret_cast<uint64_t>(space.base()), mr->rkey, space.page()});
        mend(far);
        EXPECT_EQ(far.context().dereg_mr(*mr), 0);
      });
}

// The program takes the page away and gives it back, over and over, while a peer's atomics come in:
// each is done or refused, once, and nobody dies.
TEST(OnDemand, AtomicsWhileThePageComesAndGoes) {
  run_pair(
      {},
      [](End& near) {
        const Key key = near.hear<Key>();
        Sweep sweep(near, key);
        constexpr std::array<SendOp, 3> kOps{SendOp::kFetchAdd, SendOp::kCompareSwap,
                                             SendOp::kAtomicWrite};
        const uint64_t most = repeat(3000, 500);
        for (uint64_t i = 0, refused = 0; i < most && refused < most / 10; ++i) {
          const WcStatus status = sweep.go(kOps[i % kOps.size()], key.addr, 8);
          EXPECT_TRUE(status == WcStatus::kRemoteAccess || status == WcStatus::kSuccess)
              << to_string(status);
          if (status != WcStatus::kSuccess) ++refused;
        }
        near.tell('.');
      },
      [](End& far) {
        const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
        void* const at =
            ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        const auto mr = on_demand(far, at, page);
        far.tell(Key{reinterpret_cast<uint64_t>(at), mr->rkey, page});
        std::atomic<bool> stop = false;
        std::thread program([&] {
          while (!stop.load(std::memory_order_relaxed)) {
            EXPECT_EQ(::mprotect(at, page, PROT_NONE), 0);
            EXPECT_EQ(::mprotect(at, page, PROT_READ | PROT_WRITE), 0);
          }
        });
        mend(far);
        stop = true;
        program.join();
        EXPECT_EQ(far.context().dereg_mr(*mr), 0);
        ::munmap(at, page);
      });
}

// As much of the address space as a region may cover, around what the process has, for reading:
// whatever is there, nobody dies.
TEST(OnDemand, TheProcessMayBeSwept) {
  run_pair(
      {},
      [](End& near) {
        const Key key = near.hear<Key>();
        Sweep sweep(near, key);
        SeededRandom random(12);
        EXPECT_EQ(sweep.go(SendOp::kRead, near.remote_addr(0), 4096), WcStatus::kSuccess);
        for (uint64_t i = 0; i < repeat(300, 60); ++i) {
          // Everywhere, and among the process's own mappings.
          const uint64_t span =
              i % 2 == 0 ? near.context().device().limits().max_mr_bytes / 4 : 1 << 28;
          const uint64_t address = near.remote_addr(0) - span / 2 + random.below(span);
          const WcStatus status =
              sweep.go(SendOp::kRead, address, static_cast<uint32_t>(1 + random.below(9000)));
          EXPECT_TRUE(status == WcStatus::kRemoteAccess || status == WcStatus::kSuccess)
              << to_string(status);
        }
        near.tell('.');
      },
      [](End& far) {
        const uint64_t length = far.context().device().limits().max_mr_bytes;
        const auto here = reinterpret_cast<uint64_t>(far.bytes(0, 1).data());
        const uint64_t start = here > length / 2 ? here - length / 2 : 0;
        // NOLINTNEXTLINE(performance-no-int-to-ptr): not a pointer to anything
        auto* const at = reinterpret_cast<void*>(start);
        auto mr = far.context().reg_mr(far.pd(), at, length, start,
                                       memory::kOnDemand | memory::kRemoteRead);
        must(mr ? 0 : mr.error(), "reg_mr");
        far.tell(Key{start, (*mr)->rkey, 0});
        mend(far);
        EXPECT_EQ(far.context().dereg_mr(**mr), 0);
      });
}

// Memory that was registered the usual way, and unmapped since.
TEST(RepeatAccessorTest, WhatIsGoneIsAFault) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto* const at = static_cast<uint8_t*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(at, MAP_FAILED);
  fill({at, 2 * page}, 1);
  RepeatAccessor accessor;
  std::vector<uint8_t> out(page);
  ASSERT_EQ(accessor.read(at + 1, out), memory::Fault::kNone);
  EXPECT_EQ(std::memcmp(out.data(), at + 1, page), 0);
  ::munmap(at + page, page);
  EXPECT_EQ(accessor.read(at + 1, out), memory::Fault::kPage);
  ::munmap(at, page);
  EXPECT_EQ(accessor.read(at, out), memory::Fault::kPage);
}

}  // namespace
}  // namespace verbena::device::testing
