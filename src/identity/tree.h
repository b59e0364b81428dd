// SPDX-License-Identifier: Apache-2.0
// The files in which the kernel shows an RDMA device, under /sys and /dev, made from what the
// device tells through verbs. Nothing here touches a file system.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/gid_table.h"
#include "identity/counter_files.h"
#include "identity/settings.h"

namespace verbena::identity {

// What we show in place of what the host has there. As the kernel does it, the entries of a class
// are links to the device's own directory.
inline constexpr std::string_view kDeviceRoot = "/sys/devices/verbena";
inline constexpr std::array<std::string_view, 4> kShownRoots{
    "/sys/class/infiniband", "/sys/class/infiniband_verbs", kDeviceRoot, "/dev/infiniband"};
// What is not there for a program, whatever the host has: management datagrams.
inline constexpr std::array<std::string_view, 2> kHiddenRoots{"/sys/class/infiniband_mad",
                                                              "/sys/class/infiniband_cm"};

struct TreeNode {
  // A device is a character device that is like /dev/null. A link's content is where it leads to,
  // relative to the directory it is in.
  enum class Type : uint8_t { kDirectory, kFile, kDevice, kLink };
  Type type = Type::kDirectory;
  std::string content = {};
  // Of a file that is a counter: the content is what it says when nothing happened yet.
  const CounterFile* counter = nullptr;
};

class Tree {
 public:
  void add(const std::string& path, TreeNode node);  // and the directories above, from a root on

  // Null: not there. Paths have no "." or "..", no '/' at the end, and lead through no links:
  // resolve.h makes such ones.
  [[nodiscard]] const TreeNode* find(std::string_view path) const;
  // The names in a directory, sorted.
  [[nodiscard]] std::vector<std::string> names_in(std::string_view directory) const;
  // By path: a directory comes before what is in it.
  [[nodiscard]] const auto& nodes() const { return nodes_; }

 private:
  std::map<std::string, TreeNode, std::less<>> nodes_;
};

// Of a device with these settings and this table.
[[nodiscard]] Tree make_tree(const Settings& settings, const device::GidTable& gids);

}  // namespace verbena::identity
