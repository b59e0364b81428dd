// SPDX-License-Identifier: Apache-2.0
// Calls that programs reach through pointers in their context.
#pragma once

#include <infiniband/verbs.h>

#include "verbs/objects.h"

namespace verbena::verbs {

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t size);
ibv_mr* register_memory(ibv_pd* pd, void* addr, size_t length, uint64_t iova, unsigned access);
ibv_mr* import_region(ibv_pd* pd, uint32_t handle);
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list,
              uint32_t count);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
ibv_dmah* alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr);
int dealloc_dmah(ibv_dmah* dmah);
ibv_mr* reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr);
int dm_export_dmabuf_fd(ibv_dm* dm);
void* alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf);
void free_buf(ibv_buf* buf);
struct CqWish {
  uint32_t entries = 0;
  void* cq_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  uint32_t vector = 0;
  device::CompletionQueueOptions options{};
};
ibv_cq* make_cq(ibv_context* context, const CqWish& wish);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init, bool signature_pipelining);
// A new request between wr_start and wr_complete; what it is about is set by the calls that follow.
transport::SendRequest& begin_request(ibv_qp_ex* qp, transport::SendOp op);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);

}  // namespace verbena::verbs
