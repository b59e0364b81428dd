// SPDX-License-Identifier: Apache-2.0
// ibv_wr_*: requests are put together call by call between wr_start and wr_complete, which posts
// them all or none.
#include <cstring>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

using transport::SendOp;
using transport::SendRequest;

SendRequest& begin(ibv_qp_ex* qp, SendOp op) { return begin_request(qp, op); }

SendRequest& begin_remote(ibv_qp_ex* qp, SendOp op, uint32_t rkey, uint64_t addr) {
  SendRequest& request = begin(qp, op);
  request.rkey = RKey(rkey);
  request.remote_addr = RemoteAddr(addr);
  return request;
}

void wr_send(ibv_qp_ex* qp) { begin(qp, SendOp::kSend); }
void wr_send_imm(ibv_qp_ex* qp, __be32 imm) { begin(qp, SendOp::kSendImm).imm = be32toh(imm); }
void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) {
  begin(qp, SendOp::kSendInvalidate).invalidate = RKey(rkey);
}
void wr_local_inv(ibv_qp_ex* qp, uint32_t rkey) {
  begin(qp, SendOp::kLocalInvalidate).invalidate = RKey(rkey);
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  SendRequest& request = begin(qp, SendOp::kBindWindow);
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!is_bindable(mw, *info)) {
    work.error = EINVAL;
    return;
  }
  request.window = RKey(mw->rkey);
  request.bind = bind_of(*info, rkey);
  if (work.error == 0 && of(qp).is_alive()) work.lists.back().window = mw;
}
void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  begin_remote(qp, SendOp::kWrite, rkey, addr);
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, __be32 imm) {
  begin_remote(qp, SendOp::kWriteImm, rkey, addr).imm = be32toh(imm);
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) {
  begin_remote(qp, SendOp::kRead, rkey, addr);
}
void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t compare,
                       uint64_t swap) {
  SendRequest& request = begin_remote(qp, SendOp::kCompareSwap, rkey, addr);
  request.compare_add = compare;
  request.swap = swap;
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t add) {
  begin_remote(qp, SendOp::kFetchAdd, rkey, addr).compare_add = add;
}
void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers);
// Eight bytes, which the request takes along.
void wr_atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, const void* value) {
  begin_remote(qp, SendOp::kAtomicWrite, rkey, addr);
  const ibv_data_buf buffer{const_cast<void*>(value), sizeof(uint64_t)};
  wr_set_inline_data_list(qp, 1, &buffer);
}
void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!of(qp).is_alive() || work.error != 0 || work.requests.empty()) return;
  if (!is_alive(ah)) {
    work.error = EINVAL;
    return;
  }
  SendRequest& request = work.requests.back();
  request.path = verbs::of(ah).path;
  request.remote_qpn = Qpn(qpn);
  request.remote_qkey = qkey;
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) {
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!of(qp).is_alive() || work.error != 0 || work.requests.empty()) return;
  work.requests.back().remote_srq = SrqId(number & 0xffffff);
}

void set_list(ibv_qp_ex* qp, const memory::Sge* list, size_t count) {
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!of(qp).is_alive() || work.error != 0 || work.requests.empty()) return;
  if (work.entries.capacity() - work.entries.size() < count) {
    work.error = EINVAL;
    return;
  }
  work.lists.back().first = work.entries.size();
  work.lists.back().count = count;
  work.entries.insert(work.entries.end(), list, list + count);
}

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) {
  const memory::Sge sge{addr, length, LKey(lkey)};
  set_list(qp, &sge, 1);
}
void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
  set_list(qp, reinterpret_cast<const memory::Sge*>(list), count);
}

// Copied now: the program may use its buffers again at once.
void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) {
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!of(qp).is_alive() || work.error != 0 || work.requests.empty()) return;
  // Each by itself first: their sum may wrap.
  size_t length = 0;
  bool fits = true;
  for (size_t i = 0; i < count && fits; ++i) {
    fits = buffers[i].length <= of(qp).cap.max_inline_data - length;
    length += buffers[i].length;
  }
  if (!fits || work.inlined.capacity() - work.inlined.size() < length) {
    work.error = EINVAL;
    return;
  }
  const size_t at = work.inlined.size();
  for (size_t i = 0; i < count; ++i) {
    const auto* const bytes = static_cast<const uint8_t*>(buffers[i].addr);
    work.inlined.insert(work.inlined.end(), bytes, bytes + buffers[i].length);
  }
  work.requests.back().flags |= transport::kInline;
  const memory::Sge sge{reinterpret_cast<uintptr_t>(work.inlined.data() + at),
                        static_cast<uint32_t>(length), LKey(0)};
  set_list(qp, &sge, 1);
}
void wr_set_inline_data(ibv_qp_ex* qp, void* addr, size_t length) {
  const ibv_data_buf buffer{addr, length};
  wr_set_inline_data_list(qp, 1, &buffer);
}

void forget(WorkInProgress& work) VERBENA_REQUIRES(work.mutex) {
  work.requests.clear();
  work.lists.clear();
  work.entries.clear();
  work.inlined.clear();
  work.configs_used = 0;
  work.configured = nullptr;
  work.error = 0;
}

// Not analysed: the mutex is given back by another call, wr_complete() or wr_abort().
void wr_start(ibv_qp_ex* qp) VERBENA_NO_THREAD_SAFETY {
  if (!of(qp).is_alive()) return;
  of(qp).work.mutex.lock();
  forget(of(qp).work);
}

// Windows that are bound have their new keys, as with ibv_bind_mw.
void tell_keys(WorkInProgress& work) VERBENA_REQUIRES(work.mutex) {
  for (size_t i = 0; i < work.requests.size(); ++i) {
    ibv_mw* const mw = work.lists[i].window;
    if (mw != nullptr) mw->rkey = key_after(*mw, *work.requests[i].bind.tag);
  }
}

int wr_complete(ibv_qp_ex* qp) {
  if (!is_alive(&qp->qp_base)) return EINVAL;
  QpObject& object = of(qp);
  WorkInProgress& work = object.work;
  work.assert_started();
  if (work.error == 0 && work.configured != nullptr) work.error = EINVAL;
  int error = work.error;
  if (error == 0 && !work.requests.empty()) {
    for (size_t i = 0; i < work.requests.size(); ++i) {
      work.requests[i].list =
          std::span(work.entries).subspan(work.lists[i].first, work.lists[i].count);
    }
    error = verbs::of(qp->qp_base.context).device.post_send_all(*object.qp, work.requests);
    if (error == 0) tell_keys(work);
  }
  work.mutex.unlock();
  return error;
}

void wr_abort(ibv_qp_ex* qp) {
  if (!of(qp).is_alive()) return;
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  work.mutex.unlock();
}

}  // namespace

SendRequest& begin_request(ibv_qp_ex* qp, SendOp op) {
  WorkInProgress& work = of(qp).work;
  work.assert_started();
  if (!of(qp).is_alive()) return work.scrap;
  if (work.error == 0 && work.configured != nullptr) work.error = EINVAL;
  if (work.error == 0 && work.requests.size() == work.requests.capacity()) work.error = ENOMEM;
  if (work.error != 0) return work.scrap = {};
  SendRequest& request = work.requests.emplace_back();
  request.wr_id = qp->wr_id;
  request.flags = qp->wr_flags & ~unsigned{IBV_SEND_INLINE};
  request.op = op;
  work.lists.emplace_back();
  return request;
}

void fill_work_calls(QpObject& qp) {
  WorkInProgress& work = qp.work;
  const MutexLock lock(work.mutex);
  const size_t entries = size_t{qp.cap.max_send_wr} * std::max<uint32_t>(qp.cap.max_send_sge, 1);
  work.requests.reserve(qp.cap.max_send_wr);
  work.lists.reserve(qp.cap.max_send_wr);
  work.entries.reserve(entries);
  work.inlined.reserve(size_t{qp.cap.max_send_wr} * qp.cap.max_inline_data);
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_atomic_write = wr_atomic_write;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
}

}  // namespace verbena::verbs
