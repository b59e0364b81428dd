// SPDX-License-Identifier: Apache-2.0
// Regions, windows, device memory and null regions, as programs use them.
#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

class VerbsMemory : public VerbsPair {
 protected:
  alignas(64) std::array<uint8_t, 4096> near_{};
  alignas(64) std::array<uint8_t, 4096> far_{};

  [[nodiscard]] int rereg_errno(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length,
                                int access, int code = IBV_REREG_MR_ERR_CMD) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr, flags, pd, addr, length, access), code);
    return errno;
  }
};

TEST_F(VerbsMemory, ReregistrationChangesWhatItIsAskedTo) {
  const auto [left, right] = make_pair();
  ibv_mr* const local = reg(near_.data(), near_.size());
  ibv_mr* const remote = reg(far_.data(), 64);
  near_.fill(7);
  ibv_sge sge = sge_of(near_.data(), 8, local);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data()), remote->rkey)),
            IBV_WC_SUCCESS);

  // Elsewhere: the old key leads nowhere.
  const uint32_t old = remote->rkey;
  ASSERT_EQ(
      ibv_rereg_mr(remote, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, far_.data() + 1024, 64, 0), 0);
  EXPECT_NE(remote->rkey, old);
  EXPECT_EQ(remote->addr, far_.data() + 1024);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data() + 1024), remote->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(far_[1024], 7);

  // In another PD the keys stay, and are of no use to this one.
  ibv_pd* const other = ibv_alloc_pd(context_);
  const uint32_t before = remote->rkey;
  ASSERT_EQ(ibv_rereg_mr(remote, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(remote->rkey, before);
  EXPECT_EQ(remote->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data() + 1024), remote->rkey)),
            IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(ibv_rereg_mr(remote, IBV_REREG_MR_CHANGE_PD, pd_, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(VerbsMemory, ReregistrationThatIsRefusedLeavesTheRegion) {
  ibv_mr* const mr = reg(far_.data(), 64);
  const ibv_mr before = *mr;
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
  // What rdma-core's library refuses by itself, then what it passes on to the device.
  constexpr int kInput = IBV_REREG_MR_ERR_INPUT;
  constexpr int kTranslation = IBV_REREG_MR_CHANGE_TRANSLATION;
  EXPECT_EQ(rereg_errno(mr, 8, nullptr, nullptr, 0, 0, kInput), EINVAL);
  EXPECT_EQ(rereg_errno(mr, IBV_REREG_MR_CHANGE_PD, pd_, nullptr, 0, kAccess, kInput), EINVAL);
  EXPECT_EQ(rereg_errno(mr, kTranslation, nullptr, nullptr, 8, 0, kInput), EINVAL);
  EXPECT_EQ(rereg_errno(mr, kTranslation, nullptr, far_.data(), 0, 0, kInput), EINVAL);
  EXPECT_EQ(rereg_errno(mr, 0, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(rereg_errno(mr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(rereg_errno(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 1 << 15), EINVAL);
  EXPECT_EQ(
      rereg_errno(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      EINVAL);  // without local write
  void* const gap = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(rereg_errno(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, gap, 4096, 0), EFAULT);
  ::munmap(gap, 4096);
  EXPECT_EQ(mr->lkey, before.lkey);
  EXPECT_EQ(mr->rkey, before.rkey);
  EXPECT_EQ(mr->addr, before.addr);
  // A region without an rkey gets none later (docs/verbs-coverage.md).
  ibv_mr* const local = reg(near_.data(), 64, kAccess);
  EXPECT_EQ(local->rkey, 0u);
  EXPECT_EQ(rereg_errno(local, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                        kAccess | IBV_ACCESS_REMOTE_READ),
            EOPNOTSUPP);
}

TEST_F(VerbsMemory, AType1WindowIsBoundUnderTheKeyToldAtOnceWhateverBecameOfTheOneBefore) {
  const auto [left, right] = make_pair();
  ibv_mr* const local = reg(near_.data(), near_.size());
  ibv_mr* const remote = reg(far_.data(), far_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {remote, address(far_.data()), 64, IBV_ACCESS_REMOTE_WRITE};

  // Flushed: the key that was told is never valid, but the next one is.
  ibv_qp* const dead = make_qp();
  connect(dead, 1);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(dead, &error, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_bind_mw(dead, mw, &bind), 0);
  EXPECT_EQ(completion().status, IBV_WC_WR_FLUSH_ERR);

  const uint32_t before = mw->rkey;
  ASSERT_EQ(ibv_bind_mw(right, mw, &bind), 0);
  EXPECT_NE(mw->rkey, before);
  const ibv_wc wc = completion();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  near_.fill(9);
  ibv_sge sge = sge_of(near_.data(), 64, local);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data()), mw->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(far_[63], 9);
  EXPECT_EQ(ibv_dereg_mr(remote), EBUSY);
  ASSERT_EQ(ibv_dealloc_mw(mw), 0);

  // Programs do not post binds of type 1 themselves, nor ibv_bind_mw those of type 2.
  ibv_mw* const other = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  EXPECT_EQ(ibv_bind_mw(right, other, &bind), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(other), 0);
  EXPECT_EQ(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(VerbsMemory, DeviceMemoryIsReachedByWordsAndKeysAndStaysWhileItIsRegistered) {
  const auto [left, right] = make_pair();
  ibv_alloc_dm_attr attr{.length = 256, .log_align_req = 3, .comp_mask = 0};
  ibv_dm* const dm = ibv_alloc_dm(context_, &attr);
  ASSERT_NE(dm, nullptr);
  std::array<uint32_t, 4> words{1, 2, 3, 4};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 2, words.data(), 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, words.data(), 6), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 252, words.data(), 8), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, words.data(), 8), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 64, words.data(), 16), 0);

  constexpr unsigned kAccess = IBV_ACCESS_ZERO_BASED | kAllAccess;
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 256, kAllAccess), nullptr);  // known by offsets alone
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 4, 256, kAccess), nullptr);
  ibv_mr* const mr = ibv_reg_dm_mr(pd_, dm, 64, 64, kAccess);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);

  // An atomic on it, from outside.
  ibv_mr* const local = reg(near_.data(), 64);
  ibv_sge sge = sge_of(near_.data(), 8, local);
  ibv_send_wr wr = rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 0, 0);
  wr.wr.atomic.remote_addr = 8;
  wr.wr.atomic.rkey = mr->rkey;
  wr.wr.atomic.compare_add = 1;
  EXPECT_EQ(run(left, wr), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_memcpy_from_dm(words.data(), dm, 64, 16), 0);
  EXPECT_EQ(words[2], 4u);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);

  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  attr.length = device.max_dm_size;
  ibv_dm* const all = ibv_alloc_dm(context_, &attr);
  ASSERT_NE(all, nullptr);
  attr.length = 4;
  EXPECT_EQ(ibv_alloc_dm(context_, &attr), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_free_dm(all), 0);
}

TEST_F(VerbsMemory, ANullRegionGivesZerosAndTakesEverything) {
  const auto [left, right] = make_pair();
  ibv_mr* const null = ibv_alloc_null_mr(pd_);
  ASSERT_NE(null, nullptr);
  ibv_mr* const remote = reg(far_.data(), far_.size());
  far_.fill(5);
  ibv_sge sge{.addr = 12345, .length = 2000, .lkey = null->lkey};
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, sge, address(far_.data()), remote->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(far_[0], 0);
  EXPECT_EQ(far_[1999], 0);
  EXPECT_EQ(far_[2000], 5);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_READ, sge, address(far_.data()), remote->rkey)),
            IBV_WC_SUCCESS);
  EXPECT_EQ(rereg_errno(null, IBV_REREG_MR_CHANGE_PD, pd_, nullptr, 0, 0), EOPNOTSUPP);

  // From the peer's side: its lkey is taken, though it is told as no rkey.
  EXPECT_EQ(null->rkey, 0u);
  EXPECT_EQ(null->length, SIZE_MAX);
  ibv_mr* const local = reg(near_.data(), near_.size());
  near_.fill(6);
  ibv_sge ours = sge_of(near_.data(), 3000, local);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_WRITE, ours, 12345, null->lkey)), IBV_WC_SUCCESS);
  EXPECT_EQ(run(left, rdma(IBV_WR_RDMA_READ, ours, 12345, null->lkey)), IBV_WC_SUCCESS);
  EXPECT_EQ(near_[0], 0);
  EXPECT_EQ(near_[2999], 0);
  EXPECT_EQ(near_[3000], 6);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

TEST_F(VerbsMemory, AdviceIsCheckedAndFetchesPages) {
  constexpr size_t kBytes = 1 << 16;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* const mr = reg(memory, kBytes, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* const reader = reg(memory, kBytes, IBV_ACCESS_ON_DEMAND);
  ibv_mr* const plain = reg(near_.data(), 64);
  const auto advise = [&](ibv_mr* of, uint32_t bytes,
                          ibv_advise_mr_advice advice = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                          uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
    ibv_sge sge{address(of->addr), bytes, of->lkey};
    return ibv_advise_mr(pd_, advice, flags, &sge, 1);
  };
  EXPECT_EQ(advise(mr, kBytes), 0);
  std::array<unsigned char, kBytes / 4096> resident{};
  ASSERT_EQ(::mincore(memory, kBytes, resident.data()), 0);
  EXPECT_EQ(resident.back() & 1, 1);
  EXPECT_EQ(advise(mr, kBytes + 1), EFAULT);
  EXPECT_EQ(advise(mr, 8, IBV_ADVISE_MR_ADVICE_PREFETCH, 2), EINVAL);
  EXPECT_EQ(advise(mr, 8, static_cast<ibv_advise_mr_advice>(3)), EOPNOTSUPP);
  EXPECT_EQ(advise(plain, 8), EINVAL);  // not on demand
  EXPECT_EQ(advise(reader, 8), EPERM);
  EXPECT_EQ(advise(reader, 8, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT), 0);
  ibv_sge none{address(memory), 8, mr->lkey ^ 0x10000};
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &none, 1), ENOENT);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &none, 0), EINVAL);
  // Memory that is gone: told to who waits for it.
  ASSERT_EQ(::munmap(memory, kBytes), 0);
  EXPECT_EQ(advise(mr, 8), EFAULT);
  EXPECT_EQ(advise(mr, 8, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0), 0);
}

}  // namespace
}  // namespace verbena::verbs
