// SPDX-License-Identifier: Apache-2.0
#include "identity/resolve.h"

#include <gtest/gtest.h>

namespace verbena::identity {
namespace {

using Where = Resolved::Kind;

class Resolve : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.add("/sys/class/infiniband/a", link("../../devices/verbena/infiniband/a"));
    tree_.add("/sys/devices/verbena/infiniband/a/device", link("../../../verbena"));
    tree_.add("/sys/devices/verbena/infiniband/a/lid", {.type = TreeNode::Type::kFile});
    tree_.add("/sys/devices/verbena/loop", link("loop"));
  }
  static TreeNode link(const char* target) {
    return {.type = TreeNode::Type::kLink, .content = target};
  }
  void expect(const char* path, Where kind, const char* wanted, Follow follow = Follow::kAll) {
    const Resolved found = resolve(tree_, path, follow);
    EXPECT_EQ(found.kind, kind) << path;
    EXPECT_EQ(found.path, wanted) << path;
  }
  Tree tree_;
};

TEST_F(Resolve, FollowsLinks) {
  expect("/sys/class/infiniband/a", Where::kInside, "/sys/devices/verbena/infiniband/a");
  expect("/sys/class/infiniband/a", Where::kInside, "/sys/class/infiniband/a", Follow::kNotTheLast);
  expect("/sys/class/infiniband/a/", Where::kInside, "/sys/devices/verbena/infiniband/a",
         Follow::kNotTheLast);
  expect("//sys/./class/infiniband//a/lid", Where::kInside,
         "/sys/devices/verbena/infiniband/a/lid");
  expect("/sys/class/infiniband/a/device/infiniband/a/lid", Where::kInside,
         "/sys/devices/verbena/infiniband/a/lid");
  expect("/sys/devices/verbena/loop", Where::kInside, "/sys/devices/verbena/loop");
}

TEST_F(Resolve, GoesUpAsTheKernelDoes) {
  expect("/sys/class/infiniband/..", Where::kElsewhere, "/sys/class");
  expect("/sys/class/infiniband/../net/lo", Where::kElsewhere, "/sys/class/net/lo");
  expect("/sys/class/infiniband/a/..", Where::kInside, "/sys/devices/verbena/infiniband");
  expect("/sys/class/infiniband/a/device/..", Where::kElsewhere, "/sys/devices");
  expect("/sys/class/infiniband/../../../..", Where::kElsewhere, "/sys/class/../../..");
  expect("/sys/class/net/../infiniband/a/lid", Where::kInside,
         "/sys/devices/verbena/infiniband/a/lid");
}

TEST_F(Resolve, KeepsWhatIsMissing) {
  expect("/sys/class/infiniband/b", Where::kInside, "/sys/class/infiniband/b");
  expect("/sys/class/infiniband/b/../a", Where::kInside, "/sys/class/infiniband/b");
  expect("/sys/class/infiniband_mad/umad0", Where::kInside, "/sys/class/infiniband_mad/umad0");
}

TEST_F(Resolve, LeavesTheRestAlone) {
  expect("/sys/class/infiniband2", Where::kForeign, "");
  expect("/home/infiniband/../x", Where::kForeign, "");
  expect("/", Where::kForeign, "");
}

}  // namespace
}  // namespace verbena::identity
