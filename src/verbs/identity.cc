// SPDX-License-Identifier: Apache-2.0
#include "verbs/identity.h"

#include <cstdio>

#include "identity/identity.h"
#include "verbs/objects.h"

namespace verbena::verbs {

ibv_device* the_device() {
  static ibv_device device = [] {
    ibv_device made{};
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    const char* const name = identity::settings().device_name.c_str();
    std::snprintf(made.name, sizeof made.name, "%s", name);
    std::snprintf(made.dev_name, sizeof made.dev_name, "%s", identity::kUverbsName);
    std::snprintf(made.dev_path, sizeof made.dev_path, "/sys/class/infiniband_verbs/%s",
                  identity::kUverbsName);
    std::snprintf(made.ibdev_path, sizeof made.ibdev_path, "/sys/class/infiniband/%s", name);
    return made;
  }();
  return &device;
}

void describe(const device::DeviceLimits& limits, ibv_device_attr& attr) {
  attr = {};
  const identity::Identity who = identity::identity_of(identity::settings().kind);
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", who.firmware);
  attr.node_guid = attr.sys_image_guid = identity::node_guid();
  attr.max_mr_size = limits.max_mr_bytes;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = who.vendor_id;
  attr.vendor_part_id = who.part_id;
  attr.hw_ver = who.hardware_version;
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
  attr.max_mw = static_cast<int>(limits.max_mw);
  attr.max_ah = 1 << 20;
  attr.max_srq = static_cast<int>(limits.max_srq);
  attr.max_srq_wr = static_cast<int>(limits.max_qp_wr);
  attr.max_srq_sge = static_cast<int>(limits.max_sge);
  attr.max_mcast_grp = static_cast<int>(limits.max_groups);
  attr.max_mcast_qp_attach = static_cast<int>(limits.max_group_members);
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp * attr.max_mcast_qp_attach;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;
}

}  // namespace verbena::verbs
