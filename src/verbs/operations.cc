// SPDX-License-Identifier: Apache-2.0
#include "verbs/operations.h"

#include "verbs/objects.h"

namespace verbena::verbs {
void fill_operations(ContextObject& context) {
  ibv_context_ops& ops = context.context.ops;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.create_cq_ex = create_cq_ex;
  context.create_qp_ex = create_qp_ex;
  context.create_srq_ex = create_srq_ex;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.get_srq_num = get_srq_num;
  context.advise_mr = advise_mr;
  context.alloc_null_mr = alloc_null_mr;
  context.alloc_dm = alloc_dm;
  context.free_dm = free_dm;
  context.reg_dm_mr = reg_dm_mr;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.query_rt_values = query_rt_values;
  context.alloc_dmah = alloc_dmah;
  context.dealloc_dmah = dealloc_dmah;
  context.reg_mr_ex = reg_mr_ex;
  context.dm_export_dmabuf_fd = dm_export_dmabuf_fd;
  context.alloc_buf = alloc_buf;
  context.free_buf = free_buf;
}

}  // namespace verbena::verbs
