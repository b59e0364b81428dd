// SPDX-License-Identifier: Apache-2.0
// A child of fork(), whatever the parent's other threads were doing.
#include <latch>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "base/mutex.h"
#include "rdmacm/channel.h"
#include "rdmacm/pair_fixture.h"

namespace verbena::rdmacm {
namespace {

[[nodiscard]] bool is_refused(int outcome) { return outcome == -1 && errno == EINVAL; }

// 0, or the line that was not as it should be.
[[nodiscard]] int use_in_child(rdma_event_channel* channel, rdma_cm_id* id, rdma_cm_event* got) {
#define WANTED(what) \
  if (!(what)) return __LINE__
  const Address any = at("127.0.0.1");
  rdma_cm_event* event = nullptr;
  rdma_cm_id* made = nullptr;
  WANTED(is_refused(rdma_bind_addr(id, raw(any))));
  WANTED(is_refused(rdma_get_cm_event(channel, &event)));
  WANTED(is_refused(rdma_create_id(channel, &made, nullptr, RDMA_PS_TCP)));
  WANTED(is_refused(rdma_migrate_id(id, nullptr)));
  WANTED(rdma_ack_cm_event(got) == 0);
  WANTED(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(channel);
  // What it makes itself works.
  rdma_event_channel* const own = rdma_create_event_channel();
  WANTED(own != nullptr);
  WANTED(rdma_create_id(own, &made, nullptr, RDMA_PS_TCP) == 0);
  WANTED(is_refused(rdma_migrate_id(made, channel)));
  WANTED(rdma_destroy_id(made) == 0);
  rdma_destroy_event_channel(own);
  return 0;
#undef WANTED
}

using RdmacmFork = Pair;

TEST_F(RdmacmFork, WhileAnotherThreadIsAtTheEvents) {
  rdma_cm_id* const id = make_id();
  const Address to = at("127.0.0.1", 1);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, raw(to), 1000), 0);
  rdma_cm_event* got = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel_, &got), 0);
  std::latch held(1);
  std::latch forked(1);
  std::thread other([&] {
    const MutexLock lock(mailbox().mutex);
    held.count_down();
    forked.wait();
  });
  held.wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatienceMs / 1000);
    ::_exit(use_in_child(channel_, id, got));
  }
  forked.count_down();
  other.join();
  EXPECT_EQ(rdma_ack_cm_event(got), 0);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the line that failed";
}

}  // namespace
}  // namespace verbena::rdmacm
