// SPDX-License-Identifier: Apache-2.0
#include "cli/devices.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include "cli/installation.h"
#include "device/device.h"
#include "identity/identity.h"

#undef ibv_query_port

namespace verbena::cli {
namespace {

constexpr uint8_t kPort = identity::kPortNumber;

struct Gid {
  uint32_t index = 0;
  std::string address;
  std::string type;
  std::string interface;
};

// Who can be reached: the same for all processes of a user, and nothing that verbs can say.
struct Reach {
  uint16_t udp_port = 0;
  std::string notice;  // why only this host can; empty: all can
};

struct Device {
  std::string name;
  std::string guid;
  ibv_device_attr attr{};
  ibv_port_attr port{};
  std::vector<Gid> gids;
};

// The functions of the library, loaded as a program's loader would. It stays loaded.
class Library {
 public:
  [[nodiscard]] Result<void, std::string> load(const std::string& path) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return fail(std::string(::dlerror()));
    return {};
  }
  // Every one is in the library's map, which its build checks.
  template <typename Function>
  [[nodiscard]] Function* get(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};
#define CALL(function) library.get<decltype(::function)>(#function)

[[nodiscard]] std::string address_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  in6_addr address{};
  std::memcpy(&address, gid.raw, sizeof address);
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&address);
  ::inet_ntop(mapped ? AF_INET : AF_INET6, gid.raw + (mapped ? 12 : 0), text.data(), text.size());
  return text.data();
}

[[nodiscard]] std::string interface_name(uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(index, name.data()) == nullptr ? "" : name.data();
}

[[nodiscard]] Result<Device, std::string> ask(const Library& library, ibv_device* listed) {
  ibv_context* const context = CALL(ibv_open_device)(listed);
  if (context == nullptr) {
    return fail("cannot open the device: " + std::string(std::strerror(errno)));
  }
  Device device;
  device.name = CALL(ibv_get_device_name)(listed);
  const uint64_t guid = be64toh(CALL(ibv_get_device_guid)(listed));
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%04x:%04x:%04x:%04x", unsigned(guid >> 48) & 0xffff,
                unsigned(guid >> 32) & 0xffff, unsigned(guid >> 16) & 0xffff,
                unsigned(guid) & 0xffff);
  device.guid = text.data();
  (void)CALL(ibv_query_device)(context, &device.attr);
  (void)CALL(ibv_query_port)(context, kPort,
                             reinterpret_cast<_compat_ibv_port_attr*>(&device.port));
  std::vector<ibv_gid_entry> entries(static_cast<size_t>(device.port.gid_tbl_len));
  const ssize_t count =
      CALL(_ibv_query_gid_table)(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    device.gids.push_back({entry.gid_index, address_text(entry.gid),
                           entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "RoCE v2",
                           interface_name(entry.ndev_ifindex)});
  }
  CALL(ibv_close_device)(context);
  return device;
}

[[nodiscard]] Result<std::vector<Device>, std::string> ask_all(const Library& library) {
  int count = 0;
  ibv_device** const list = CALL(ibv_get_device_list)(&count);
  if (list == nullptr) return fail("cannot list devices: " + std::string(std::strerror(errno)));
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    auto device = ask(library, list[i]);
    if (!device) return fail(device.error());
    devices.push_back(std::move(*device));
  }
  CALL(ibv_free_device_list)(list);
  return devices;
}

[[nodiscard]] int mtu_bytes(ibv_mtu mtu) { return 128 << mtu; }

void print_text(const Library& library, const Device& device, const Reach& reach) {
  std::printf("%s\n", device.name.c_str());
  std::printf("  node GUID  %s\n", device.guid.c_str());
  std::printf("  vendor     0x%04x, part %u, firmware %s\n", device.attr.vendor_id,
              device.attr.vendor_part_id, device.attr.fw_ver);
  std::printf("  port 1     %s, Ethernet (RoCE v2, UDP port %u%s), MTU %d of at most %d\n",
              CALL(ibv_port_state_str)(device.port.state), unsigned{reach.udp_port},
              reach.notice.empty() ? "" : ", this host only", mtu_bytes(device.port.active_mtu),
              mtu_bytes(device.port.max_mtu));
  if (device.gids.empty()) {
    std::printf("  no address of this host is offered; see --address\n");
    return;
  }
  std::printf("  %-5s%-9s%-12s%s\n", "GID", "type", "interface", "address");
  for (const Gid& gid : device.gids) {
    std::printf("  %-5u%-9s%-12s%s\n", gid.index, gid.type.c_str(), gid.interface.c_str(),
                gid.address.c_str());
  }
}

// As JSON has it. Names of interfaces are the system's, and may be any bytes.
[[nodiscard]] std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? '?' : letter;
  }
  return out + '"';
}

void print_json(const Library& library, const Device& device, const Reach& reach) {
  std::printf(
      "    {\n"
      "      \"name\": %s,\n"
      "      \"node_guid\": %s,\n"
      "      \"vendor_id\": %u,\n"
      "      \"vendor_part_id\": %u,\n"
      "      \"firmware\": %s,\n"
      "      \"ports\": [\n"
      "        {\n",
      quoted(device.name).c_str(), quoted(device.guid).c_str(), device.attr.vendor_id,
      device.attr.vendor_part_id, quoted(device.attr.fw_ver).c_str());
  std::printf(
      "          \"port\": %u,\n"
      "          \"state\": %s,\n"
      "          \"link_layer\": \"Ethernet\",\n"
      "          \"udp_port\": %u,\n"
      "          \"this_host_only\": %s,\n"
      "          \"notice\": %s,\n"
      "          \"active_mtu\": %d,\n"
      "          \"max_mtu\": %d,\n"
      "          \"gids\": [",
      unsigned{kPort}, quoted(CALL(ibv_port_state_str)(device.port.state)).c_str(),
      unsigned{reach.udp_port}, reach.notice.empty() ? "false" : "true",
      quoted(reach.notice).c_str(), mtu_bytes(device.port.active_mtu),
      mtu_bytes(device.port.max_mtu));
  const char* between = "";
  for (const Gid& gid : device.gids) {
    std::printf("%s\n            {\"index\": %u, \"type\": %s, \"interface\": %s, \"address\": %s}",
                between, gid.index, quoted(gid.type).c_str(), quoted(gid.interface).c_str(),
                quoted(gid.address).c_str());
    between = ",";
  }
  std::printf(
      "\n          ]\n"
      "        }\n"
      "      ]\n"
      "    }");
}

void print_json(const Library& library, const std::vector<Device>& devices, const Reach& reach) {
  std::printf("{\n  \"devices\": [");
  const char* between = "\n";
  for (const Device& device : devices) {
    std::fputs(between, stdout);
    print_json(library, device, reach);
    between = ",\n";
  }
  std::printf("\n  ]\n}\n");
}

int say(const std::string& what) {
  std::fprintf(stderr, "verbena devices: %s\n", what.c_str());
  return 1;
}

}  // namespace

int show_devices(const Environment& environment, bool json) {
  const auto libraries = library_directory();
  if (!libraries) return say(libraries.error());
  for (const char* const name : identity::kVariables) {
    const auto found = environment.find(name);
    if (found != environment.end()) ::setenv(name, found->second.c_str(), 1);
  }
  // What limits the device here (another holds its port, say) is for this reader.
  ::setenv(identity::kVerboseVariable, "1", 1);
  // A member of the host beside the library's device, which comes to the same port while this one
  // is there.
  const auto member = device::Device::acquire({});
  if (!member) return say(member.error().what);
  const Reach reach{(*member)->engine().host().port(), (*member)->notice()};
  Library library;
  if (const auto loaded = library.load(*libraries + '/' + kVerbsLibrary); !loaded) {
    return say(loaded.error());
  }
  const auto devices = ask_all(library);
  if (!devices) return say(devices.error());
  if (json) {
    print_json(library, *devices, reach);
  } else {
    for (const Device& device : *devices) print_text(library, device, reach);
  }
  return std::fflush(stdout) == 0 ? 0 : say("cannot write: " + std::string(std::strerror(errno)));
}

}  // namespace verbena::cli
