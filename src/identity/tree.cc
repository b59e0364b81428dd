// SPDX-License-Identifier: Apache-2.0
#include "identity/tree.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "base/check.h"
#include "identity/identity.h"

namespace verbena::identity {
namespace {

template <typename... Arguments>
[[nodiscard]] std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

[[nodiscard]] std::string guid_text(uint64_t network_order) {
  std::array<uint8_t, 8> b;
  std::memcpy(b.data(), &network_order, b.size());
  return format("%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6],
                b[7]);
}

[[nodiscard]] std::string gid_text(const wire::Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.bytes.size(); i += 2) {
    text += format("%s%02x%02x", i == 0 ? "" : ":", gid.bytes[i], gid.bytes[i + 1]);
  }
  return text;
}

// As the kernel words a port's rate; the least lane rate is all that a software device claims.
[[nodiscard]] std::string rate_text() {
  static_assert(kPort.width == 1 && kPort.speed == 1);
  return "2.5 Gb/sec (1X SDR)";
}

// All processors: the device is as near to each.
[[nodiscard]] std::string cpu_mask(long count) {
  std::string mask;
  for (long group = (count - 1) / 32; group >= 0; --group) {
    const long here = std::min(count - group * 32, 32L);
    const uint32_t bits = here == 32 ? 0xffffffff : (uint32_t{1} << here) - 1;
    mask += format("%08x%s", bits, group == 0 ? "" : ",");
  }
  return mask;
}

class Builder {
 public:
  explicit Builder(Tree& tree) : tree_(tree) {}
  void file(const std::string& path, const std::string& line) {
    tree_.add(path, {.type = TreeNode::Type::kFile, .content = line + "\n"});
  }
  void number(const std::string& path, const char* pattern, uint32_t value) {
    file(path, format(pattern, value));
  }
  void directory(const std::string& path) { tree_.add(path, {}); }
  void link(const std::string& path, const std::string& target) {
    tree_.add(path, {.type = TreeNode::Type::kLink, .content = target});
  }
  void device(const std::string& path) { tree_.add(path, {.type = TreeNode::Type::kDevice}); }

 private:
  Tree& tree_;
};

void add_numbers(Builder& to, const std::string& at, const Settings& settings) {
  const Identity who = identity_of(settings.kind);
  to.file(at + "/node_type", "1: CA");
  to.file(at + "/node_guid", guid_text(node_guid()));
  to.file(at + "/sys_image_guid", guid_text(node_guid()));
  to.file(at + "/node_desc", "Verbena, a software device");
  to.file(at + "/fw_ver", who.firmware);
  to.file(at + "/hca_type", who.type);
  to.file(at + "/board_id", who.board);
  to.number(at + "/hw_rev", "0x%x", who.hardware_version);
}

// What the kernel has of a PCI function.
void add_function(Builder& to, const std::string& at, const Settings& settings,
                  const device::GidTable& gids) {
  const Identity who = identity_of(settings.kind);
  to.number(at + "/vendor", "0x%04x", who.vendor_id);
  to.number(at + "/device", "0x%04x", who.part_id);
  const long cpus = std::max(::sysconf(_SC_NPROCESSORS_CONF), 1L);
  to.file(at + "/numa_node", "-1");
  to.file(at + "/local_cpus", cpu_mask(cpus));
  to.file(at + "/local_cpulist", cpus == 1 ? "0" : format("0-%ld", cpus - 1));
  for (const device::GidEntry& entry : gids.entries()) {
    if (!entry.gid.is_zero()) to.directory(at + "/net/" + entry.interface);
  }
}

// The directory of one of the function's devices, and the link to it in its class.
[[nodiscard]] std::string add_to_class(Builder& to, const std::string& class_name,
                                       const std::string& name) {
  const std::string within = '/' + class_name + '/' + name;
  const std::string at = std::string(kDeviceRoot) + within;
  to.link("/sys/class" + within, "../../devices/verbena" + within);
  to.link(at + "/device", "../../../verbena");
  to.link(at + "/subsystem", "../../../../class/" + class_name);
  return at;
}

void add_port(Builder& to, const std::string& at) {
  static_assert(kPort.state == 4 && kPort.physical_state == 5);
  to.file(at + "/state", "4: ACTIVE");
  to.file(at + "/phys_state", "5: LinkUp");
  to.file(at + "/rate", rate_text());
  to.file(at + "/lid", "0x0");
  to.file(at + "/lid_mask_count", "0");
  to.file(at + "/sm_lid", "0x0");
  to.file(at + "/sm_sl", "0");
  to.file(at + "/link_layer", "Ethernet");
  to.number(at + "/cap_mask", "0x%08x", kPort.capabilities);
  to.number(at + "/pkeys/0", "0x%04x", kPort.pkey);
}

void add_counters(Tree& to, const std::string& port) {
  for (const CounterFile& file : kCounterFiles) {
    to.add(port + '/' + std::string(file.path),
           {.type = TreeNode::Type::kFile, .content = counter_text(file, {}), .counter = &file});
  }
}

// The kernel has a file for each place of the table; the attributes of an empty one cannot be read.
void add_gids(Builder& to, const std::string& port, const device::GidTable& gids) {
  to.directory(port + "/gid_attrs/types");
  to.directory(port + "/gid_attrs/ndevs");
  const std::string types = port + "/gid_attrs/types/";
  const std::string interfaces = port + "/gid_attrs/ndevs/";
  const std::string values = port + "/gids/";
  for (uint32_t i = 0; i < device::GidTable::kMaxEntries; ++i) {
    const std::string index = std::to_string(i);
    const auto entry = gids.at(i);
    to.file(values + index, gid_text(entry ? entry->gid : wire::Gid{}));
    if (!entry) continue;
    to.file(types + index, entry->shown_as_v1 ? "IB/RoCE v1" : "RoCE v2");
    to.file(interfaces + index, entry->interface);
  }
}

}  // namespace

std::string counter_text(const CounterFile& file, const link::PortTotals& totals) {
  return std::to_string(totals[static_cast<size_t>(file.counter)] / file.unit) + '\n';
}

void Tree::add(const std::string& path, TreeNode node) {
  const auto* const root = std::ranges::find_if(kShownRoots, [&](std::string_view shown) {
    return path.starts_with(std::string(shown) + '/');
  });
  VERBENA_CHECK(root != kShownRoots.end());
  for (size_t end = root->size(); end != std::string::npos; end = path.find('/', end + 1)) {
    nodes_.try_emplace(path.substr(0, end));
  }
  nodes_[path] = std::move(node);
}

const TreeNode* Tree::find(std::string_view path) const {
  const auto found = nodes_.find(path);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<std::string> Tree::names_in(std::string_view directory) const {
  const std::string start = std::string(directory) + '/';
  std::vector<std::string> names;
  for (auto at = nodes_.lower_bound(start); at != nodes_.end() && at->first.starts_with(start);
       ++at) {
    std::string name = at->first.substr(start.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

Tree make_tree(const Settings& settings, const device::GidTable& gids) {
  Tree tree;
  Builder to(tree);
  add_function(to, std::string(kDeviceRoot), settings, gids);
  const std::string device = add_to_class(to, "infiniband", settings.device_name);
  add_numbers(to, device, settings);
  const std::string port = device + "/ports/" + std::to_string(kPortNumber);
  add_port(to, port);
  add_gids(to, port, gids);
  add_counters(tree, port);

  const std::string name = kUverbsName;
  const std::string verbs = add_to_class(to, "infiniband_verbs", name);
  to.file("/sys/class/infiniband_verbs/abi_version", "6");
  to.file(verbs + "/ibdev", settings.device_name);
  to.file(verbs + "/abi_version", "1");
  // The null device's, for that is what the device node is.
  to.file(verbs + "/dev", "1:3");
  to.device("/dev/infiniband/" + name);
  return tree;
}

}  // namespace verbena::identity
