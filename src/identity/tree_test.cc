// SPDX-License-Identifier: Apache-2.0
#include "identity/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::identity {
namespace {

using ::testing::ElementsAre;

Tree tree_for(const std::string& identity) {
  const auto reading = read_settings([&](const char* name) -> const char* {
    if (std::string_view(name) == kIdentityVariable) return identity.c_str();
    return std::string_view(name) == kAddressesVariable ? "127.0.0.1" : nullptr;
  });
  device::GidTable gids(reading.settings.gids);
  gids.refresh();
  return make_tree(reading.settings, gids);
}

std::string text(const Tree& tree, const std::string& path) {
  const TreeNode* const node = tree.find(path);
  return node == nullptr ? "(none)" : node->content;
}

TEST(Tree, ShowsTheDevice) {
  const Tree tree = tree_for("verbena");
  EXPECT_THAT(tree.names_in("/sys/class/infiniband"), ElementsAre("verbena0"));
  EXPECT_EQ(text(tree, "/sys/class/infiniband/verbena0"),
            "../../devices/verbena/infiniband/verbena0");
  const std::string device = "/sys/devices/verbena/infiniband/verbena0";
  EXPECT_EQ(text(tree, device + "/node_type"), "1: CA\n");
  EXPECT_EQ(text(tree, device + "/ports/1/state"), "4: ACTIVE\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gids/255"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gid_attrs/types/0"), "RoCE v2\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gid_attrs/ndevs/0"), "lo\n");
  EXPECT_THAT(tree.names_in(device + "/ports/1/gid_attrs/types"), ElementsAre("0"));
  EXPECT_THAT(tree.names_in("/sys/devices/verbena/net"), ElementsAre("lo"));
  EXPECT_EQ(text(tree, "/sys/devices/verbena/infiniband_verbs/uverbs0/ibdev"), "verbena0\n");
  ASSERT_NE(tree.find("/dev/infiniband/uverbs0"), nullptr);
  EXPECT_EQ(tree.find("/dev/infiniband/uverbs0")->type, TreeNode::Type::kDevice);
}

TEST(Tree, ShowsAConnectXWithBothKindsOfGids) {
  const Tree tree = tree_for("connectx");
  const std::string device = "/sys/devices/verbena/infiniband/mlx5_0";
  EXPECT_EQ(text(tree, "/sys/devices/verbena/vendor"), "0x02c9\n");
  EXPECT_EQ(text(tree, device + "/hca_type"), "MT4119\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gid_attrs/types/0"), "IB/RoCE v1\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gid_attrs/types/1"), "RoCE v2\n");
  EXPECT_EQ(text(tree, device + "/ports/1/gids/0"), text(tree, device + "/ports/1/gids/1"));
}

TEST(Tree, HasADirectoryAboveEachFile) {
  const Tree tree = tree_for("verbena");
  for (const auto& [path, node] : tree.nodes()) {
    if (std::ranges::find(kShownRoots, path) != kShownRoots.end()) continue;
    const TreeNode* const above = tree.find(path.substr(0, path.rfind('/')));
    ASSERT_NE(above, nullptr) << path;
    EXPECT_EQ(above->type, TreeNode::Type::kDirectory) << path;
  }
}

}  // namespace
}  // namespace verbena::identity
