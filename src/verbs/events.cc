// SPDX-License-Identifier: Apache-2.0
// Asynchronous events.
#include "verbs/objects.h"

namespace verbena::verbs {

void await_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                uint32_t given) {
  ::pthread_mutex_lock(&mutex);
  while (acknowledged != given) ::pthread_cond_wait(&cond, &mutex);
  ::pthread_mutex_unlock(&mutex);
}

namespace {

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& acknowledged) {
  ::pthread_mutex_lock(&mutex);
  ++acknowledged;
  ::pthread_cond_broadcast(&cond);
  ::pthread_mutex_unlock(&mutex);
}

}  // namespace

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

static_assert(static_cast<int>(device::EventType::kQpLastWqeReached) ==
                  IBV_EVENT_QP_LAST_WQE_REACHED &&
              static_cast<int>(device::EventType::kGidChange) == IBV_EVENT_GID_CHANGE);

VERBENA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  device::AsyncEvent happened;
  if (!is_alive(context) || event == nullptr) {
    errno = EINVAL;
    return -1;
  }
  const int error = of(context).device.events().wait(happened);
  if (error != 0) {
    errno = error;
    return -1;
  }
  *event = {};
  event->event_type = static_cast<ibv_event_type>(happened.type);
  switch (happened.type) {
    case device::EventType::kCqError:
      event->element.cq = ibv_cq_ex_to_cq(static_cast<CqObject*>(happened.element));
      break;
    case device::EventType::kSrqLimitReached:
      event->element.srq = static_cast<SrqObject*>(happened.element);
      break;
    case device::EventType::kPortActive:
    case device::EventType::kPortError:
    case device::EventType::kGidChange:
    case device::EventType::kDeviceFatal: event->element.port_num = 1; break;
    default:                              event->element.qp = &static_cast<QpObject*>(happened.element)->qp_base; break;
  }
  return 0;
}

VERBENA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  switch (static_cast<device::EventType>(event->event_type)) {
    case device::EventType::kCqError: {
      ibv_cq& cq = *event->element.cq;
      if (of(&cq).is_dead()) return;
      return acknowledge(cq.mutex, cq.cond, cq.async_events_completed);
    }
    case device::EventType::kSrqLimitReached: {
      ibv_srq& srq = *event->element.srq;
      if (of(&srq).is_dead()) return;
      return acknowledge(srq.mutex, srq.cond, srq.events_completed);
    }
    case device::EventType::kQpFatal:
    case device::EventType::kQpRequestError:
    case device::EventType::kQpAccessError:
    case device::EventType::kCommunicationEstablished:
    case device::EventType::kSqDrained:
    case device::EventType::kQpLastWqeReached:         {
      ibv_qp& qp = *event->element.qp;
      if (of(&qp).is_dead()) return;
      return acknowledge(qp.mutex, qp.cond, qp.events_completed);
    }
    default: return;  // the port's
  }
}
