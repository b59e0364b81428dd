// SPDX-License-Identifier: Apache-2.0
// Domains, import, completions and work requests, where the man pages promise something.
#include <atomic>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

using namespace std::chrono_literals;

class VerbsObjects : public VerbsPair {
 protected:
  std::array<uint8_t, 256> near_{};
  std::array<uint8_t, 256> far_{};
};

TEST_F(VerbsObjects, ParentDomainsHoldWhatTheyStandFor) {
  ibv_td_init_attr none{};
  ibv_td* const td = ibv_alloc_td(context_, &none);
  ASSERT_NE(td, nullptr);
  ibv_pd* const pd = ibv_alloc_pd(context_);
  ibv_parent_domain_init_attr attr{};
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.pd = pd;
  attr.td = td;
  ibv_pd* const parent = ibv_alloc_parent_domain(context_, &attr);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  ibv_mr* const mr = ibv_reg_mr(parent, near_.data(), 8, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(VerbsObjects, AContextIsImportedByItsDescriptorAndSharesWhatIsInIt) {
  ibv_mr* const mr = reg(near_.data(), 64);
  ibv_context* const again = ibv_import_device(::dup(context_->cmd_fd));
  ASSERT_NE(again, nullptr);
  ibv_pd* const pd = ibv_import_pd(again, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* const same = ibv_import_mr(pd, mr->handle);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->lkey, mr->lkey);
  EXPECT_EQ(same->rkey, mr->rkey);
  EXPECT_EQ(ibv_import_pd(again, 12345), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_mr(pd, 12345), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_mr(same);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(again), 0);

  ibv_context* const stranger = ibv_open_device(devices_[0]);
  EXPECT_EQ(ibv_import_pd(stranger, pd_->handle), nullptr);
  EXPECT_EQ(ibv_close_device(stranger), 0);
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(ibv_import_device(file), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ::close(file);
  EXPECT_EQ(ibv_import_device(-1), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(VerbsObjects, AnImportedDomainEndsWithTheContextItWasMadeIn) {
  const Leak leak;  // a domain that its context took along
  ibv_context* const maker = ibv_open_device(devices_[0]);
  ibv_context* const user = ibv_import_device(::dup(maker->cmd_fd));
  ASSERT_NE(user, nullptr);
  const uint32_t handle = ibv_alloc_pd(maker)->handle;
  ibv_pd* const pd = ibv_import_pd(user, handle);
  ASSERT_NE(pd, nullptr);
  ibv_cq* const cq = ibv_create_cq(user, 4, nullptr, nullptr, 0);
  EXPECT_EQ(ibv_close_device(maker), 0);

  const auto expect_refused = [](const void* made) {
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(errno, EINVAL);
  };
  ibv_qp_init_attr qp{};
  qp.send_cq = qp.recv_cq = cq;
  qp.cap = {.max_send_wr = 1,
            .max_recv_wr = 1,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .max_inline_data = 0};
  qp.qp_type = IBV_QPT_RC;
  expect_refused(ibv_create_qp(pd, &qp));
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  expect_refused(ibv_create_srq(pd, &srq));
  expect_refused(ibv_reg_mr(pd, near_.data(), 8, 0));
  expect_refused(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
  EXPECT_EQ(ibv_dealloc_pd(pd), EINVAL);
  EXPECT_EQ(ibv_import_pd(user, handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_close_device(user), 0);
}

TEST_F(VerbsObjects, AnImportedDomainIsDeallocatedByEither) {
  const Leak leak;  // the handle of the other
  ibv_context* const user = ibv_import_device(::dup(context_->cmd_fd));
  ASSERT_NE(user, nullptr);
  ibv_pd* const own = ibv_alloc_pd(context_);
  EXPECT_EQ(ibv_dealloc_pd(ibv_import_pd(user, own->handle)), 0);
  EXPECT_EQ(ibv_dealloc_pd(own), EINVAL);
  EXPECT_EQ(ibv_close_device(user), 0);
}

TEST_F(VerbsObjects, RequestsArePostedTogetherOrNotAtAll) {
  // Towards nobody, so that what is posted stays.
  ibv_qp* const qp = make_qp(4, IBV_QP_EX_WITH_SEND);
  connect(qp, 1);
  ibv_qp_ex* const work = ibv_qp_to_qp_ex(qp);
  const auto post = [work](int count) {
    ibv_wr_start(work);
    for (int i = 0; i < count; ++i) {
      work->wr_id = static_cast<uint64_t>(i);
      work->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_send(work);
      ibv_wr_set_sge_list(work, 0, nullptr);
    }
    return ibv_wr_complete(work);
  };
  EXPECT_EQ(post(3), 0);
  EXPECT_EQ(post(2), ENOMEM);
  EXPECT_EQ(post(1), 0);  // the place is still free
  EXPECT_EQ(post(1), ENOMEM);
  ibv_wr_start(work);
  ibv_wr_send(work);
  ibv_wr_abort(work);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(completion().status, IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
}

TEST_F(VerbsObjects, DestroyingACqWaitsForItsEventsToBeAcknowledged) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context_);
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, channel, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  std::swap(cq, cq_);
  ibv_qp* const qp = make_qp();
  std::swap(cq, cq_);
  connect(qp, 1);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);  // flushed at once
  ibv_cq* from = nullptr;
  void* cookie = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &from, &cookie), 0);
  EXPECT_EQ(from, cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  std::erase(qps_, qp);

  std::atomic<bool> done = false;
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    done = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(done);
  ibv_ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(VerbsObjects, CompletionsAreStampedWhenTheyHappen) {
  ibv_cq_init_attr_ex init{};
  init.cqe = 8;
  init.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* const cq = ibv_create_cq_ex(context_, &init);
  ASSERT_NE(cq, nullptr);
  ibv_cq* shown = ibv_cq_ex_to_cq(cq);
  std::swap(shown, cq_);
  ibv_qp* const qp = make_qp();
  std::swap(shown, cq_);
  connect(qp, 1);
  const auto raw = [this] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context_, &values), 0);
    return static_cast<uint64_t>(values.raw_clock.tv_nsec);
  };
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
  const uint64_t before = raw();
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  const uint64_t after = raw();
  EXPECT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 16), 0);  // takes them along
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
  EXPECT_GE(ibv_wc_read_completion_ts(cq), before);
  EXPECT_LE(ibv_wc_read_completion_ts(cq), after);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  EXPECT_NEAR(static_cast<double>(ibv_wc_read_completion_wallclock_ns(cq)) / 1e9,
              static_cast<double>(now.tv_sec), 60.0);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  std::erase(qps_, qp);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);

  init.wc_flags = IBV_WC_EX_WITH_CVLAN;
  EXPECT_EQ(ibv_create_cq_ex(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbena::verbs
