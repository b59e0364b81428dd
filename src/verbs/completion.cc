// SPDX-License-Identifier: Apache-2.0
// Completion channels and queues.
#include <algorithm>
#include <span>

#include "verbs/objects.h"
#include "verbs/operations.h"
#include "verbs/queue_memory.h"

namespace verbena::verbs {
namespace {

using transport::Completion;

static_assert(static_cast<int>(transport::WcStatus::kRetryExceeded) == IBV_WC_RETRY_EXC_ERR &&
              static_cast<int>(transport::WcStatus::kFlushed) == IBV_WC_WR_FLUSH_ERR &&
              static_cast<int>(transport::WcOpcode::kRecvWriteImm) == IBV_WC_RECV_RDMA_WITH_IMM &&
              static_cast<int>(transport::WcOpcode::kFetchAdd) == IBV_WC_FETCH_ADD &&
              static_cast<int>(transport::WcOpcode::kLocalInvalidate) == IBV_WC_LOCAL_INV &&
              static_cast<unsigned>(transport::kWcGrh) == IBV_WC_GRH &&
              static_cast<unsigned>(transport::kWcWithImm) == IBV_WC_WITH_IMM &&
              static_cast<unsigned>(transport::kWcWithInvalidate) == IBV_WC_WITH_INV);

// How many queues a channel has, which programs may read, is changed as in rdma-core.
class ChannelUse {
 public:
  explicit ChannelUse(ibv_comp_channel* channel) : channel_(channel) { add(1); }
  ~ChannelUse() { add(-1); }
  ChannelUse(const ChannelUse&) = delete;
  ChannelUse& operator=(const ChannelUse&) = delete;
  // It lasts.
  void keep() { channel_ = nullptr; }

  static void add(ibv_comp_channel* channel, int change) {
    if (channel == nullptr) return;
    ::pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += change;
    ::pthread_mutex_unlock(&channel->context->mutex);
  }

 private:
  void add(int change) { add(channel_, change); }
  ibv_comp_channel* channel_;
};

void translate(const Completion& from, ibv_wc& to) {
  to = {};
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.byte_len = from.byte_len;
  if ((from.flags & transport::kWcWithInvalidate) != 0) {
    to.invalidated_rkey = from.imm_or_rkey;
  } else {
    to.imm_data = htobe32(from.imm_or_rkey);
  }
  to.qp_num = from.qpn.value;
  to.src_qp = from.source_qpn.value;
  to.wc_flags = from.flags;
  to.sl = from.service_level;
}

}  // namespace

ibv_cq* make_cq(ibv_context* context, const CqWish& wish) {
  if (!is_alive(context) || !is_usable_in(context, wish.channel)) return none(EINVAL);
  if (wish.vector >= static_cast<uint32_t>(context->num_comp_vectors)) return none(EINVAL);
  if (!has_memory_for("MLX_CQ_ALLOC_TYPE")) return none(ENOMEM);
  auto cq = std::make_unique<CqObject>();
  ChannelUse use(wish.channel);
  auto made = of(context).device.create_cq(
      wish.entries, wish.channel != nullptr ? &of(wish.channel).channel : nullptr, wish.options);
  if (!made) return none(made.error());
  static_cast<ibv_cq_ex&>(*cq) = {};
  cq->context = context;
  cq->channel = wish.channel;
  cq->cq_context = wish.cq_context;
  cq->cqe = static_cast<int>((*made)->entries());
  ::pthread_mutex_init(&cq->mutex, nullptr);
  ::pthread_cond_init(&cq->cond, nullptr);
  cq->cq = std::move(*made);
  cq->cq->cookie = cq.get();
  cq->stamped = wish.options.stamped();
  fill_reading(*cq);
  use.keep();
  return ibv_cq_ex_to_cq(cq.release());
}

namespace {

constexpr size_t kAtOnce = 16;

// Room that is not cleared first: what is read of it was written.
union Batch {
  std::array<Completion, kAtOnce> all;
  Batch() {}  // NOLINT(modernize-use-equals-default): that would be deleted
};

}  // namespace

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  Batch batch;
  if (!is_alive(cq)) return -EINVAL;
  int done = 0;
  while (done < count) {
    const size_t want = std::min<size_t>(kAtOnce, static_cast<size_t>(count - done));
    const uint32_t got =
        of(cq->context).device.poll_cq(*of(cq).cq, std::span(batch.all).first(want));
    for (uint32_t i = 0; i < got; ++i) translate(batch.all[i], wc[done + static_cast<int>(i)]);
    done += static_cast<int>(got);
    if (got < want) break;
  }
  return done;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  if (!is_alive(cq)) return EINVAL;
  of(cq->context).device.req_notify_cq(*of(cq).cq, solicited_only != 0);
  return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (!is_alive(context)) return none(EINVAL);
  return guarded([=]() -> ibv_comp_channel* {
    auto channel = std::make_unique<ChannelObject>();
    if (!channel->channel.valid()) return none(EMFILE);
    channel->context = context;
    channel->fd = channel->channel.fd();
    channel->refcnt = 0;
    return channel.release();
  });
}

VERBENA_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return guarded([=] {
    if (!is_alive(channel)) return EINVAL;
    return destroy(of(channel), [=] {
      ::pthread_mutex_lock(&channel->context->mutex);
      const bool used = channel->refcnt != 0;
      ::pthread_mutex_unlock(&channel->context->mutex);
      return used ? EBUSY : 0;
    });
  });
}

VERBENA_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                     ibv_comp_channel* channel, int vector) {
  return guarded([=]() -> ibv_cq* {
    if (cqe < 1 || vector < 0) return none(EINVAL);
    return make_cq(context, {.entries = static_cast<uint32_t>(cqe),
                             .cq_context = cq_context,
                             .channel = channel,
                             .vector = static_cast<uint32_t>(vector)});
  });
}

VERBENA_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  return guarded([=] {
    if (!is_alive(cq)) return EINVAL;
    CqObject& object = of(cq);
    return destroy(object, [&] {
      const int error = of(cq->context).device.destroy_cq(*object.cq);
      if (error != 0) return error;
      object.doom();
      await_acks(cq->mutex, cq->cond, cq->comp_events_completed, object.cq->channel_events);
      await_acks(cq->mutex, cq->cond, cq->async_events_completed, object.cq->async_events);
      ChannelUse::add(object.channel, -1);
      ::pthread_mutex_destroy(&object.mutex);
      ::pthread_cond_destroy(&object.cond);
      return 0;
    });
  });
}

VERBENA_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  return guarded([=] {
    if (!is_alive(cq) || cqe < 1) return EINVAL;
    const int error = of(cq->context).device.resize_cq(*of(cq).cq, static_cast<uint32_t>(cqe));
    if (error == 0) cq->cqe = static_cast<int>(of(cq).cq->entries());
    return error;
  });
}

VERBENA_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  device::CompletionQueue* found = nullptr;
  if (!is_alive(channel) || cq == nullptr || cq_context == nullptr) {
    errno = EINVAL;
    return -1;
  }
  const int error = of(channel->context).device.get_cq_event(of(channel).channel, found);
  if (error != 0) {
    errno = error;
    return -1;
  }
  auto* const object = static_cast<CqObject*>(found->cookie);
  *cq = ibv_cq_ex_to_cq(object);
  *cq_context = object->cq_context;
  return 0;
}

VERBENA_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  if (cq == nullptr || of(cq).is_dead()) return;
  ::pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  ::pthread_cond_broadcast(&cq->cond);
  ::pthread_mutex_unlock(&cq->mutex);
}
