// SPDX-License-Identifier: Apache-2.0
#include "link/local_addresses.h"

#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

namespace verbena::link {
namespace {

[[nodiscard]] bool run(const char* command) { return std::system(command) == 0; }

// No descriptor can be had while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    (void)::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    (void)::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(LocalAddresses, StayWhileTheSystemRefusesToTellThem) {
  bool ran = false;
  std::jthread([&] {  // whose network namespace it is
    if (::unshare(CLONE_NEWNET) != 0 || !run("ip link set lo up 2>/dev/null")) return;
    ran = true;
    const wire::Gid first = wire::Gid::from_ipv4(10, 99, 0, 1);
    const wire::Gid second = wire::Gid::from_ipv4(10, 99, 0, 2);
    ASSERT_TRUE(run("ip addr add 10.99.0.1/32 dev lo"));
    LocalAddresses addresses;
    ASSERT_TRUE(addresses.contains(first));
    ASSERT_TRUE(run("ip addr add 10.99.0.2/32 dev lo"));
    {
      const NoDescriptors refused;
      addresses.on_ready();
      EXPECT_TRUE(addresses.contains(first));
      EXPECT_FALSE(addresses.contains(second));
    }
    EXPECT_TRUE(addresses.contains(first)) << "asked again";
    EXPECT_TRUE(addresses.contains(second)) << "though no notice came";
  })
      .join();
  if (!ran) GTEST_SKIP() << "network namespaces are not to be had here";
}

}  // namespace
}  // namespace verbena::link
