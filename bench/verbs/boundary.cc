// SPDX-License-Identifier: Apache-2.0
// How many instructions a call takes through the verbs boundary, and the same call on the device below it. Counted by
// stepping through them one by one, since virtual machines seldom have counters. One line each:
// "NAME THROUGH WITHOUT", the least of several calls: a lock that another thread has is nobody's cost.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/check.h"
#include "verbs/objects.h"

using namespace verbena;
using verbs::of;

namespace {

constexpr int kCalls = 25;

// The child stops itself before each call and arrives here after it.
[[gnu::noinline]] void end_of_call() { asm volatile(""); }

struct Shared {
  char name[64];
  bool through;
  bool done;
};

struct Setup {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qps[2] = {};
  std::array<uint8_t, 4096> memory{};
};

void connect(ibv_qp* qp, uint32_t peer, const ibv_gid& gid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  VERBENA_CHECK(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  VERBENA_CHECK(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.max_rd_atomic = 1;
  VERBENA_CHECK(ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

void set_up(Setup& setup) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  setup.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  VERBENA_CHECK(setup.context != nullptr);
  setup.pd = ibv_alloc_pd(setup.context);
  setup.cq = ibv_create_cq(setup.context, 256, nullptr, nullptr, 0);
  setup.mr = ibv_reg_mr(setup.pd, setup.memory.data(), setup.memory.size(),
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = setup.cq;
  init.cap = {64, 64, 1, 1, 64};
  init.qp_type = IBV_QPT_RC;
  for (ibv_qp*& qp : setup.qps) qp = ibv_create_qp(setup.pd, &init);
  ibv_gid gid;
  VERBENA_CHECK(ibv_query_gid(setup.context, 1, 0, &gid) == 0);
  connect(setup.qps[0], setup.qps[1]->qp_num, gid);
  connect(setup.qps[1], setup.qps[0]->qp_num, gid);
}

// --- the calls

struct Calls {
  Setup& setup;
  ibv_sge sge{};
  ibv_send_wr wr{};
  std::array<memory::Sge, 1> list{};
  transport::SendRequest request;

  explicit Calls(Setup& with) : setup(with) {
    const auto at = reinterpret_cast<uint64_t>(setup.memory.data());
    sge = {at, 8, setup.mr->lkey};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = at + 64;
    wr.wr.rdma.rkey = setup.mr->rkey;
    list[0] = {at, 8, LKey(setup.mr->lkey)};
    request.op = transport::SendOp::kWrite;
    request.flags = transport::kSignaled | transport::kInline;
    request.list = list;
    request.remote_addr = RemoteAddr(at + 64);
    request.rkey = RKey(setup.mr->rkey);
  }
  void post_through() {
    ibv_send_wr* bad = nullptr;
    VERBENA_CHECK(ibv_post_send(setup.qps[0], &wr, &bad) == 0);
  }
  void post_without() {
    VERBENA_CHECK(of(setup.context).device.post_send(*of(setup.qps[0]).qp, request) == 0);
  }
  int poll_through() {
    ibv_wc wc;
    return ibv_poll_cq(setup.cq, 1, &wc);
  }
  int poll_without() {
    std::array<transport::Completion, 1> out;
    return static_cast<int>(of(setup.context).device.poll_cq(*of(setup.cq).cq, out));
  }
  void wait() {
    while (poll_through() == 0) {
    }
  }
  // A completion that lies there, with nothing else under way.
  void make_ready() {
    post_through();
    ::usleep(3000);
  }
};

void count(Shared& shared, const char* name, bool through, const std::function<void()>& before,
           const std::function<void()>& call, const std::function<void()>& after) {
  for (int i = 0; i < kCalls; ++i) {
    before();
    std::snprintf(shared.name, sizeof shared.name, "%s", name);
    shared.through = through;
    ::raise(SIGUSR1);
    call();
    end_of_call();
    after();
  }
}

[[noreturn]] void child(Shared& shared) {
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  static Setup setup;
  set_up(setup);
  Calls calls(setup);
  const auto nothing = [] {};
  const auto wait = [&] { calls.wait(); };
  const auto ready = [&] { calls.make_ready(); };
  count(shared, "post_send, WRITE of 8 bytes", true, nothing, [&] { calls.post_through(); }, wait);
  count(shared, "post_send, WRITE of 8 bytes", false, nothing, [&] { calls.post_without(); }, wait);
  count(shared, "poll_cq, one completion", true, ready, [&] { (void)calls.poll_through(); }, nothing);
  count(shared, "poll_cq, one completion", false, ready, [&] { (void)calls.poll_without(); }, nothing);
  count(shared, "poll_cq, nothing there", true, nothing, [&] { (void)calls.poll_through(); }, nothing);
  count(shared, "poll_cq, nothing there", false, nothing, [&] { (void)calls.poll_without(); }, nothing);
  shared.done = true;
  ::raise(SIGUSR1);
  std::_Exit(0);
}

[[nodiscard]] uint64_t program_counter(pid_t pid) {
  user_regs_struct registers{};
  iovec io{&registers, sizeof registers};
  VERBENA_CHECK(::ptrace(PTRACE_GETREGSET, pid, 1 /* NT_PRSTATUS */, &io) == 0);
#if defined(__aarch64__)
  return registers.pc;
#else
  return registers.rip;
#endif
}

// From the child's raise() to end_of_call().
[[nodiscard]] uint64_t step_through(pid_t pid) {
  constexpr uint64_t kMost = 2'000'000;
  const auto end = reinterpret_cast<uint64_t>(&end_of_call);
  for (uint64_t steps = 0; steps < kMost; ++steps) {
    int status = 0;
    VERBENA_CHECK(::ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0);
    VERBENA_CHECK(::waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    if (program_counter(pid) == end) return steps;
  }
  std::fputs("a call does not end\n", stderr);
  std::exit(1);
}

}  // namespace

int main() {
  auto* const shared = static_cast<Shared*>(::mmap(
      nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t pid = ::fork();
  if (pid == 0) child(*shared);
  struct Row {
    std::string name;
    uint64_t least[2] = {~uint64_t{0}, ~uint64_t{0}};
  };
  std::vector<Row> rows;
  for (;;) {
    int status = 0;
    VERBENA_CHECK(::waitpid(pid, &status, 0) == pid);
    if (!WIFSTOPPED(status)) return 1;
    if (WSTOPSIG(status) != SIGUSR1) {
      ::ptrace(PTRACE_CONT, pid, nullptr, WSTOPSIG(status));
      continue;
    }
    if (shared->done) break;
    if (rows.empty() || rows.back().name != shared->name) rows.push_back({shared->name});
    uint64_t& least = rows.back().least[shared->through ? 0 : 1];
    least = std::min(least, step_through(pid));
    ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  for (const Row& row : rows) {
    std::printf("%s %llu %llu\n", row.name.c_str(), static_cast<unsigned long long>(row.least[0]),
                static_cast<unsigned long long>(row.least[1]));
  }
  return 0;
}
