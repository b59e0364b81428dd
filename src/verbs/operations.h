// SPDX-License-Identifier: Apache-2.0
// Calls that programs reach through pointers in their context.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t size);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
int get_srq_num(ibv_srq* srq, uint32_t* number);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);

}  // namespace verbena::verbs
