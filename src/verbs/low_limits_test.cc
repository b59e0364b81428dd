// SPDX-License-Identifier: Apache-2.0
// Where the system refuses what opening the device takes: an errno for the program, never its end.
// In forked children, for limits and sandboxes stay.
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/forbid.h"
#include "verbs/pair_fixture.h"

namespace verbena::verbs {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kOwnAllocator = true;  // has its own ideas about short memory, and about fork
#else
constexpr bool kOwnAllocator = false;
#endif

class VerbsLowLimits : public VerbsPair {
 protected:
  void SetUp() override {
    if (kOwnAllocator) GTEST_SKIP() << "not with a sanitizer's threads and memory";
  }
  void TearDown() override {}

  // What `part` gives in a child: 0, an errno, or kCannotForbid. A signal is a failure.
  static int in_child(const std::function<int()>& part) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(part());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Opens the device, uses it a little and closes it. 0 or the errno of what was refused.
  static int use() {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    if (list == nullptr) return errno;
    errno = 0;
    ibv_context* const context = ibv_open_device(list[0]);
    if (context == nullptr) return errno != 0 ? errno : 255;
    ibv_pd* const pd = ibv_alloc_pd(context);
    int error = pd == nullptr ? errno : 0;
    ibv_cq* const cq = ibv_create_cq(context, 4096, nullptr, nullptr, 0);
    if (cq == nullptr) error = errno;
    if (cq != nullptr && ibv_destroy_cq(cq) != 0) error = 254;
    if (pd != nullptr && ibv_dealloc_pd(pd) != 0) error = 254;
    if (ibv_close_device(context) != 0) error = 254;
    ibv_free_device_list(list);
    return error;
  }
  static bool limit(int which, rlim_t most) {
    rlimit value{};
    if (::getrlimit(static_cast<__rlimit_resource>(which), &value) != 0) return false;
    value.rlim_cur = most;
    return ::setrlimit(static_cast<__rlimit_resource>(which), &value) == 0;
  }
  static rlim_t address_space() {
    std::ifstream file("/proc/self/statm");
    rlim_t pages = 0;
    file >> pages;
    return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  }
};

TEST_F(VerbsLowLimits, NoThread) {
  const int got = in_child([] {
    if (!testing::forbid(SYS_clone3, EAGAIN) || !testing::forbid(SYS_clone, EAGAIN)) {
      return testing::kCannotForbid;
    }
    return use();
  });
  if (got == testing::kCannotForbid) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(got, EAGAIN);
}

TEST_F(VerbsLowLimits, NoRandomNumbers) {
  const int got = in_child(
      [] { return testing::forbid(SYS_getrandom, EPERM) ? use() : testing::kCannotForbid; });
  if (got == testing::kCannotForbid) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(got, 0) << "/dev/urandom is there";
  EXPECT_EQ(in_child([] {
              if (!testing::forbid(SYS_getrandom, ENOSYS)) return testing::kCannotForbid;
              return testing::forbid(SYS_openat, EACCES) ? use() : testing::kCannotForbid;
            }),
            EACCES);
}

// With other processes of the user about, the memory is theirs, and the limit does not matter.
TEST_F(VerbsLowLimits, NoFilesOfAnySize) {
  const int got = in_child([] { return limit(RLIMIT_FSIZE, 0) ? use() : 253; });
  EXPECT_TRUE(got == EFBIG || got == 0) << got;
}

TEST_F(VerbsLowLimits, FewDescriptors) {
  for (rlim_t most = 3; most < 40; ++most) {
    const int got = in_child([most] { return limit(RLIMIT_NOFILE, most) ? use() : 253; });
    EXPECT_TRUE(got == 0 || got == EMFILE) << most << ": " << got;
  }
}

TEST_F(VerbsLowLimits, LittleAddressSpace) {
  constexpr rlim_t kStep = 768 << 10;
  bool refused = false;
  bool opened = false;
  for (rlim_t more = 0; more < 60 * kStep; more += kStep) {
    const int got =
        in_child([more] { return limit(RLIMIT_AS, address_space() + more) ? use() : 253; });
    EXPECT_TRUE(got == 0 || got == ENOMEM || got == EAGAIN) << more << ": " << got;
    refused = refused || got != 0;
    opened = opened || got == 0;
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(opened);
}

// A post of an operation whose room is made when it is first used.
TEST_F(VerbsLowLimits, APostWithoutMemoryIsRefused) {
  EXPECT_EQ(in_child([this] {
              VerbsPair::SetUp();
              ibv_qp* const qp = make_qp(16'384);
              connect(qp, qp->qp_num);
              std::vector<uint8_t> memory(4096);
              ibv_mr* const mr = reg(memory.data(), memory.size());
              ibv_mw* const mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
              if (mw == nullptr || HasFailure()) return 252;
              ibv_send_wr wr{};
              wr.opcode = IBV_WR_BIND_MW;
              wr.bind_mw.mw = mw;
              wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
              wr.bind_mw.bind_info = {.mr = mr,
                                      .addr = reinterpret_cast<uintptr_t>(memory.data()),
                                      .length = 64,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_READ};
              if (!limit(RLIMIT_AS, address_space())) return 253;
              while (std::malloc(64 << 10) != nullptr) {}  // what the heap has left
              ibv_send_wr* bad = nullptr;
              const int error = ibv_post_send(qp, &wr, &bad);
              if (error != 0 && bad != &wr) return 251;
              if (error == 0 || !limit(RLIMIT_AS, RLIM_INFINITY)) return 250;
              // With memory again, it goes.
              return ibv_post_send(qp, &wr, &bad) == 0 ? error : 249;
            }),
            ENOMEM);
}

}  // namespace
}  // namespace verbena::verbs
