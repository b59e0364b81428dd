// SPDX-License-Identifier: Apache-2.0
// What verbs.h has of newer releases of rdma-core than the one whose headers this is compiled with
// (44): structures and operations as programs that were built there have them. The names are our
// own, so that it compiles with newer headers too; tests/verbs/newer_abi.cc compares the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <infiniband/verbs.h>

// Opaque here: a pointer to one is turned into a pointer to what stands for it below.
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

extern "C" {
ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr);
int ibv_dealloc_dmah(ibv_dmah* dmah);
ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr);
int ibv_dm_export_dmabuf_fd(ibv_dm* dm);
int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed);
void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf);
void ibv_free_buf(ibv_buf* buf);
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, size_t length, int access);
int ibv_export_buf_dmabuf_fd(ibv_buf* buf);
// NOLINTNEXTLINE(readability-identifier-naming): rdma-core's
int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps, size_t size);
ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context, ibv_comp_cntr_init_attr* attr);
int ibv_destroy_comp_cntr(ibv_comp_cntr* counter);
int ibv_set_comp_cntr(ibv_comp_cntr* counter, uint64_t value);
int ibv_set_err_comp_cntr(ibv_comp_cntr* counter, uint64_t value);
int ibv_inc_comp_cntr(ibv_comp_cntr* counter, uint64_t amount);
int ibv_inc_err_comp_cntr(ibv_comp_cntr* counter, uint64_t amount);
int ibv_read_comp_cntr(ibv_comp_cntr* counter, uint64_t* value);
int ibv_read_err_comp_cntr(ibv_comp_cntr* counter, uint64_t* value);
int ibv_qp_attach_comp_cntr(ibv_qp* qp, ibv_comp_cntr* counter, ibv_qp_attach_comp_cntr_attr* attr);
const char* ibv_wr_opcode_str(ibv_wr_opcode opcode);
}

namespace verbena::verbs {

// The operations of a verbs_context since then. It grows upward: they lie before what programs of
// older headers know, and `sz` says how much of it there is.
struct NewerOperations {
  void (*free_buf)(ibv_buf* buf);
  void* (*alloc_buf)(ibv_pd* pd, size_t size, ibv_buf** buf);
  int (*dm_export_dmabuf_fd)(ibv_dm* dm);
  ibv_mr* (*reg_mr_ex)(ibv_pd* pd, ibv_mr_init_attr* attr);
  int (*dealloc_dmah)(ibv_dmah* dmah);
  ibv_dmah* (*alloc_dmah)(ibv_context* context, ibv_dmah_init_attr* attr);
};

template <typename Known>
concept HasNewerOperations = requires(Known& known) { known.alloc_buf; };
template <typename Known>
struct WithNewerOperations : NewerOperations, Known {};
// With newer headers it has them itself.
using VerbsContext = std::conditional_t<HasNewerOperations<verbs_context>, verbs_context,
                                        WithNewerOperations<verbs_context>>;

// ibv_port_attr::active_speed_ex, behind what 44 has of it.
inline constexpr size_t kActiveSpeedExOffset = 52;

// Of ibv_parent_domain_init_attr's comp_mask.
inline constexpr uint32_t kAllowUnprotectedMemory = 1 << 2;

struct MrInitAttr {
  size_t length;
  int access;
  uint64_t comp_mask;  // kRegMr*
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  ibv_dmah* dmah;
  ibv_buf* buf;
};
inline constexpr uint64_t kRegMrIova = 1 << 0;
inline constexpr uint64_t kRegMrAddr = 1 << 1;
inline constexpr uint64_t kRegMrFd = 1 << 2;
inline constexpr uint64_t kRegMrFdOffset = 1 << 3;
inline constexpr uint64_t kRegMrDmah = 1 << 4;
inline constexpr uint64_t kRegMrBuf = 1 << 5;

struct CompCntr {
  ibv_context* context;
  uint32_t handle;
};
struct CompCntrCaps {
  uint64_t max_value;
  uint32_t max_counters;
  uint32_t supported_qp_attach_ops;  // bits of transport::CountedOp
};
struct CompCntrInitAttr {
  uint32_t comp_mask;
  uint32_t type;  // an enumeration's: kCountRequests, kCountBytes
  uint32_t flags;
};
inline constexpr uint32_t kCountRequests = 0;
inline constexpr uint32_t kCountBytes = 1;
struct QpAttachCompCntrAttr {
  uint32_t comp_mask;
  uint32_t op_mask;
};

}  // namespace verbena::verbs
