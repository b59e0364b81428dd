// SPDX-License-Identifier: Apache-2.0
// Work requests, classic: lists of ibv_send_wr and ibv_recv_wr.
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

using transport::RecvRequest;
using transport::SendOp;
using transport::SendRequest;

static_assert(static_cast<int>(SendOp::kSendInvalidate) == IBV_WR_SEND_WITH_INV &&
              static_cast<int>(SendOp::kBindWindow) == IBV_WR_BIND_MW &&
              static_cast<int>(SendOp::kAtomicWrite) == IBV_WR_ATOMIC_WRITE &&
              static_cast<int>(SendOp::kFetchAdd) == IBV_WR_ATOMIC_FETCH_AND_ADD &&
              static_cast<unsigned>(transport::kInline) == IBV_SEND_INLINE &&
              static_cast<unsigned>(transport::kSolicited) == IBV_SEND_SOLICITED);
// An ibv_sge is an Sge.
static_assert(sizeof(memory::Sge) == sizeof(ibv_sge) &&
              offsetof(memory::Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(memory::Sge, lkey) == offsetof(ibv_sge, lkey));

[[nodiscard]] bool is_list(const ibv_sge* list, int count) {
  return count == 0 || (count > 0 && list != nullptr);
}

[[nodiscard]] std::span<const memory::Sge> list_of(const ibv_sge* list, int count) {
  return {reinterpret_cast<const memory::Sge*>(list), static_cast<size_t>(count)};
}

// What is different once it was posted: a window that is bound has its new key, as with
// ibv_bind_mw.
void note_posted(const ibv_send_wr& wr) {
  if (wr.opcode != IBV_WR_BIND_MW) [[likely]]
    return;
  wr.bind_mw.mw->rkey = key_after(*wr.bind_mw.mw, wr.bind_mw.rkey);
}

[[nodiscard]] int translate(const ibv_qp& qp, const ibv_send_wr& wr, SendRequest& to) {
  constexpr unsigned kKnown =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if (!is_list(wr.sg_list, wr.num_sge) || (wr.send_flags & ~kKnown) != 0) return EINVAL;
  std::construct_at(&to);
  to.wr_id = wr.wr_id;
  to.op = static_cast<SendOp>(wr.opcode);
  to.flags = wr.send_flags;
  to.list = list_of(wr.sg_list, wr.num_sge);
  switch (wr.opcode) {
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE_WITH_IMM: to.imm = be32toh(wr.imm_data); break;
    case IBV_WR_SEND_WITH_INV:       to.invalidate = RKey(wr.invalidate_rkey); break;
    case IBV_WR_LOCAL_INV:
      to.invalidate = RKey(wr.invalidate_rkey);
      to.list = {};
      break;
    case IBV_WR_BIND_MW:
      if (!is_bindable(wr.bind_mw.mw, wr.bind_mw.bind_info)) return EINVAL;
      to.window = RKey(wr.bind_mw.mw->rkey);
      to.bind = bind_of(wr.bind_mw.bind_info, wr.bind_mw.rkey);
      to.list = {};
      break;
    case IBV_WR_ATOMIC_WRITE:
    case IBV_WR_SEND:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: break;
    default:                          return EINVAL;
  }
  if (qp.qp_type == IBV_QPT_XRC_SEND) to.remote_srq = SrqId(wr.qp_type.xrc.remote_srqn & 0xffffff);
  if (qp.qp_type == IBV_QPT_UD) {
    if (!is_alive(wr.wr.ud.ah)) return EINVAL;
    to.path = of(wr.wr.ud.ah).path;
    to.remote_qpn = Qpn(wr.wr.ud.remote_qpn);
    to.remote_qkey = wr.wr.ud.remote_qkey;
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    to.remote_addr = RemoteAddr(wr.wr.atomic.remote_addr);
    to.rkey = RKey(wr.wr.atomic.rkey);
    to.compare_add = wr.wr.atomic.compare_add;
    to.swap = wr.wr.atomic.swap;
  } else {
    to.remote_addr = RemoteAddr(wr.wr.rdma.remote_addr);
    to.rkey = RKey(wr.wr.rdma.rkey);
  }
  return 0;
}

[[nodiscard]] int translate(const ibv_recv_wr& wr, RecvRequest& to) {
  if (!is_list(wr.sg_list, wr.num_sge)) return EINVAL;
  to = {wr.wr_id, list_of(wr.sg_list, wr.num_sge)};
  return 0;
}

void note_posted(const ibv_recv_wr& /*wr*/) {}

// Posts kTogether at a time, for which the device's lock is taken once: of a longer list others get
// at it in between. `post` gives how many it posted, and why not the next.
template <size_t kTogether, typename Request, typename Wr, typename Translate, typename Post>
[[nodiscard]] int post_parts(Wr* wr, Wr** bad, Translate& translate_one, Post& post) {
  // Not cleared first: translate_one() makes each.
  union Requests {
    std::array<Request, kTogether> all;
    Requests() {}  // NOLINT(modernize-use-equals-default): that would be deleted
  } requests;
  while (wr != nullptr) {
    size_t count = 0;
    int error = 0;
    for (Wr* next = wr; next != nullptr && count < kTogether; next = next->next) {
      error = translate_one(*next, requests.all[count]);
      if (error != 0) break;
      ++count;
    }
    int refused = 0;
    const size_t posted =
        count == 0 ? 0 : post(std::span<const Request>(requests.all).first(count), refused);
    for (size_t i = 0; i < posted; ++i, wr = wr->next) note_posted(*wr);
    if (posted < count) error = refused;
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

// One is what most programs post, and not worth clearing room for more.
template <size_t kTogether, typename Request, typename Wr, typename Translate, typename Post>
[[nodiscard]] int post_list(Wr* wr, Wr** bad, Translate&& translate_one, Post&& post) {
  if (wr != nullptr && wr->next != nullptr) {
    return post_parts<kTogether, Request>(wr, bad, translate_one, post);
  }
  return post_parts<1, Request>(wr, bad, translate_one, post);
}

constexpr size_t kReceivesTogether = 64;
constexpr size_t kSendsTogether = 16;  // each of which may be a packet

[[nodiscard]] int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad, auto&& post) {
  return post_list<kReceivesTogether, RecvRequest>(
      wr, bad, [](const ibv_recv_wr& one, RecvRequest& to) { return translate(one, to); }, post);
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (!is_alive(qp)) {
    *bad = wr;
    return EINVAL;
  }
  return post_list<kSendsTogether, SendRequest>(
      wr, bad, [qp](const ibv_send_wr& one, SendRequest& to) { return translate(*qp, one, to); },
      [qp](std::span<const SendRequest> requests, int& error) {
        return of(qp->context).device.post_send(*of(qp).qp, requests, error);
      });
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (!is_alive(qp)) {
    *bad = wr;
    return EINVAL;
  }
  return post_receives(wr, bad, [qp](std::span<const RecvRequest> requests, int& error) {
    return of(qp->context).device.post_recv(*of(qp).qp, requests, error);
  });
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (!is_alive(srq)) {
    *bad = wr;
    return EINVAL;
  }
  return post_receives(wr, bad, [srq](std::span<const RecvRequest> requests, int& error) {
    return of(srq->context).device.post_srq_recv(*of(srq).srq, requests, error);
  });
}

}  // namespace verbena::verbs
