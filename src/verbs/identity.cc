// SPDX-License-Identifier: Apache-2.0
#include "verbs/identity.h"

#include <array>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/endian.h"
#include "verbs/objects.h"

namespace verbena::verbs {
namespace {

// Locally administered, as no registered vendor's is.
constexpr uint32_t kVendorId = 0x020056;
constexpr uint32_t kPartId = 1;
constexpr const char* kName = "verbena0";

}  // namespace

ibv_device* the_device() {
  static ibv_device device = [] {
    ibv_device made{};
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(made.name, sizeof made.name, "%s", kName);
    std::snprintf(made.dev_name, sizeof made.dev_name, "uverbs0");
    std::snprintf(made.dev_path, sizeof made.dev_path, "/sys/class/infiniband_verbs/uverbs0");
    std::snprintf(made.ibdev_path, sizeof made.ibdev_path, "/sys/class/infiniband/%s", kName);
    return made;
  }();
  return &device;
}

uint64_t node_guid() {
  // Of the machine's id; of the host's name where there is none. Not the id itself, which is kept
  // from others.
  std::array<uint8_t, 128> seed{};
  size_t length = 0;
  const int fd = ::open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t got = ::read(fd, seed.data(), 64);
    if (got > 0) length = static_cast<size_t>(got);
    ::close(fd);
  }
  if (length == 0) {
    utsname name{};
    ::uname(&name);
    length = std::strlen(name.nodename);
    std::memcpy(seed.data(), name.nodename, length);
  }
  const uint32_t low = crc32({seed.data(), length});
  seed[length] = 'v';
  const uint32_t high = crc32({seed.data(), length + 1});
  std::array<uint8_t, 8> guid{0x02,
                              static_cast<uint8_t>(high >> 16),
                              static_cast<uint8_t>(high >> 8),
                              static_cast<uint8_t>(high),
                              0,
                              0,
                              0,
                              0};
  store_be32(guid.data() + 4, low);
  uint64_t value = 0;
  std::memcpy(&value, guid.data(), sizeof value);
  return value;
}

void describe(const device::DeviceLimits& limits, ibv_device_attr& attr) {
  attr = {};
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", VERBENA_VERSION);
  attr.node_guid = attr.sys_image_guid = node_guid();
  attr.max_mr_size = limits.max_mr_bytes;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = kVendorId;
  attr.vendor_part_id = kPartId;
  attr.max_qp = static_cast<int>(limits.max_qp);
  attr.max_qp_wr = static_cast<int>(limits.max_qp_wr);
  attr.device_cap_flags = IBV_DEVICE_XRC | IBV_DEVICE_CURR_QP_STATE_MOD |
                          IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attr.max_sge = static_cast<int>(limits.max_sge);
  attr.max_sge_rd = static_cast<int>(limits.max_sge);
  attr.max_cq = static_cast<int>(limits.max_cq);
  attr.max_cqe = static_cast<int>(limits.max_cqe);
  attr.max_mr = static_cast<int>(limits.max_mr);
  attr.max_pd = static_cast<int>(limits.max_pd);
  attr.max_qp_rd_atom = static_cast<int>(limits.max_rd_atomic);
  attr.max_res_rd_atom = static_cast<int>(limits.max_rd_atomic * limits.max_qp);
  attr.max_qp_init_rd_atom = static_cast<int>(limits.max_rd_atomic);
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = static_cast<int>(limits.max_mr);
  attr.max_ah = 1 << 20;
  attr.max_srq = static_cast<int>(limits.max_srq);
  attr.max_srq_wr = static_cast<int>(limits.max_qp_wr);
  attr.max_srq_sge = static_cast<int>(limits.max_sge);
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;
}

}  // namespace verbena::verbs
