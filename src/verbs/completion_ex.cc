// SPDX-License-Identifier: Apache-2.0
// Extended completion queues: completions are read field by field.
#include <span>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

// The next one becomes the current.
[[nodiscard]] int advance(CqObject& cq) {
  device::Stamp* const stamp = cq.stamped ? &cq.stamp : nullptr;
  if (verbs::of(cq.context).device.poll_cq(*cq.cq, {&cq.current, 1}, stamp) == 0) return ENOENT;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  cq.wr_id = cq.current.wr_id;
  return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (!is_alive(ibv_cq_ex_to_cq(cq)) || attr == nullptr || attr->comp_mask != 0) return EINVAL;
  return advance(of(cq));
}
int next_poll(ibv_cq_ex* cq) {
  if (!is_alive(ibv_cq_ex_to_cq(cq))) return EINVAL;
  return advance(of(cq));
}
void end_poll(ibv_cq_ex*) {}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) {
  return static_cast<ibv_wc_opcode>(of(cq).current.opcode);
}
uint32_t read_vendor_err(ibv_cq_ex*) { return 0; }
uint32_t read_byte_len(ibv_cq_ex* cq) { return of(cq).current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) {
  const transport::Completion& current = of(cq).current;
  // The same place has the key that was invalidated, which is not in network order.
  if ((current.flags & transport::kWcWithInvalidate) != 0) return current.imm_or_rkey;
  return htobe32(current.imm_or_rkey);
}
uint32_t read_qp_num(ibv_cq_ex* cq) { return of(cq).current.qpn.value; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return of(cq).current.source_qpn.value; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return of(cq).current.flags; }
uint32_t read_slid(ibv_cq_ex*) { return 0; }
uint8_t read_sl(ibv_cq_ex* cq) { return of(cq).current.service_level; }
uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }
uint64_t read_completion_ts(ibv_cq_ex* cq) { return of(cq).stamp.raw_ns; }
uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) { return of(cq).stamp.wall_ns; }

}  // namespace

void fill_reading(CqObject& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init) {
  // VLANs, flow tags, tag matching: not there. One thread at a time: no need to know.
  constexpr uint64_t kKnownFields = uint64_t{IBV_WC_STANDARD_FLAGS} |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr uint32_t kKnownFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if (init == nullptr) return none(EINVAL);
  if ((init->wc_flags & ~kKnownFields) != 0) return none(EOPNOTSUPP);
  if ((init->comp_mask & ~kKnownMask) != 0) return none(EOPNOTSUPP);
  const uint32_t flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? init->flags : 0;
  if ((flags & ~kKnownFlags) != 0) return none(EOPNOTSUPP);
  if ((init->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    ibv_pd* const pd = init->parent_domain;
    if (!is_alive(pd) || pd->context != context || verbs::of(pd).parent == nullptr) {
      return none(EINVAL);
    }
  }
  return guarded([&] {
    return reinterpret_cast<ibv_cq_ex*>(make_cq(
        context,
        {.entries = init->cqe,
         .cq_context = init->cq_context,
         .channel = init->channel,
         .vector = init->comp_vector,
         .options = {
             .raw_stamps = (init->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0,
             .wall_stamps = (init->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0,
             .ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0}}));
  });
}

}  // namespace verbena::verbs
