// SPDX-License-Identifier: Apache-2.0
// Compiled with the headers of the newest rdma-core (newest.py), not linked: what src/verbs/newer.h
// repeats of them is what they say.
#include <rdma/rdma_cma.h>

#include "rdmacm/newer.h"
#include "transport/operation_counter.h"
#include "verbs/newer.h"

namespace verbena::verbs {

#define VERBENA_SAME_FIELD(ours, theirs, field)                     \
  static_assert(offsetof(ours, field) == offsetof(theirs, field) && \
                sizeof(ours::field) == sizeof(theirs::field))

// The context: ours is what stands before the older one.
using Composed = NewerOperations;
static_assert(HasNewerOperations<verbs_context>);
static_assert(std::is_same_v<VerbsContext, verbs_context>);
static_assert(offsetof(verbs_context, query_port) == sizeof(Composed));
VERBENA_SAME_FIELD(Composed, verbs_context, free_buf);
VERBENA_SAME_FIELD(Composed, verbs_context, alloc_buf);
VERBENA_SAME_FIELD(Composed, verbs_context, dm_export_dmabuf_fd);
VERBENA_SAME_FIELD(Composed, verbs_context, reg_mr_ex);
VERBENA_SAME_FIELD(Composed, verbs_context, dealloc_dmah);
VERBENA_SAME_FIELD(Composed, verbs_context, alloc_dmah);

static_assert(offsetof(ibv_port_attr, active_speed_ex) == kActiveSpeedExOffset);
static_assert(sizeof(ibv_port_attr::active_speed_ex) == 4);

static_assert(kAllowUnprotectedMemory == IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC);

static_assert(sizeof(MrInitAttr) == sizeof(ibv_mr_init_attr));
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, length);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, access);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, comp_mask);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, iova);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, addr);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, fd);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, fd_offset);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, dmah);
VERBENA_SAME_FIELD(MrInitAttr, ibv_mr_init_attr, buf);
static_assert(kRegMrIova == IBV_REG_MR_MASK_IOVA && kRegMrAddr == IBV_REG_MR_MASK_ADDR &&
              kRegMrFd == IBV_REG_MR_MASK_FD && kRegMrFdOffset == IBV_REG_MR_MASK_FD_OFFSET &&
              kRegMrDmah == IBV_REG_MR_MASK_DMAH && kRegMrBuf == IBV_REG_MR_MASK_BUF);

static_assert(sizeof(CompCntr) == sizeof(ibv_comp_cntr));
VERBENA_SAME_FIELD(CompCntr, ibv_comp_cntr, context);
VERBENA_SAME_FIELD(CompCntr, ibv_comp_cntr, handle);
static_assert(sizeof(CompCntrCaps) == sizeof(ibv_comp_cntr_caps));
VERBENA_SAME_FIELD(CompCntrCaps, ibv_comp_cntr_caps, max_value);
VERBENA_SAME_FIELD(CompCntrCaps, ibv_comp_cntr_caps, max_counters);
VERBENA_SAME_FIELD(CompCntrCaps, ibv_comp_cntr_caps, supported_qp_attach_ops);
static_assert(sizeof(CompCntrInitAttr) == sizeof(ibv_comp_cntr_init_attr));
VERBENA_SAME_FIELD(CompCntrInitAttr, ibv_comp_cntr_init_attr, comp_mask);
VERBENA_SAME_FIELD(CompCntrInitAttr, ibv_comp_cntr_init_attr, type);
VERBENA_SAME_FIELD(CompCntrInitAttr, ibv_comp_cntr_init_attr, flags);
static_assert(kCountRequests == IBV_COMP_CNTR_TYPE_WRS && kCountBytes == IBV_COMP_CNTR_TYPE_BYTES);
static_assert(sizeof(QpAttachCompCntrAttr) == sizeof(ibv_qp_attach_comp_cntr_attr));
VERBENA_SAME_FIELD(QpAttachCompCntrAttr, ibv_qp_attach_comp_cntr_attr, comp_mask);
VERBENA_SAME_FIELD(QpAttachCompCntrAttr, ibv_qp_attach_comp_cntr_attr, op_mask);

using transport::bit_of;
using transport::CountedOp;
static_assert(bit_of(CountedOp::kSend) == IBV_QP_ATTACH_COMP_CNTR_OP_SEND &&
              bit_of(CountedOp::kRecv) == IBV_QP_ATTACH_COMP_CNTR_OP_RECV &&
              bit_of(CountedOp::kRead) == IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ &&
              bit_of(CountedOp::kRemoteRead) == IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ &&
              bit_of(CountedOp::kWrite) == IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE &&
              bit_of(CountedOp::kRemoteWrite) == IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);

// As ibv_wr_opcode_str() has it.
static_assert(IBV_WR_FLUSH == 14);

static_assert(rdmacm::kEventAddrinfoResolved == RDMA_CM_EVENT_ADDRINFO_RESOLVED &&
              rdmacm::kEventAddrinfoError == RDMA_CM_EVENT_ADDRINFO_ERROR &&
              rdmacm::kEventUser == RDMA_CM_EVENT_USER);
static_assert(rdmacm::kAskSubnet == RAI_SA && rdmacm::kAskNames == RAI_DNS);
static_assert(offsetof(rdma_cm_event, param.arg) == offsetof(rdma_cm_event, param));

}  // namespace verbena::verbs
