// SPDX-License-Identifier: Apache-2.0
// rdma_get_cm_event(): what an event promises is done here, in the program's thread, before the
// program sees it.
#include <cerrno>

#include "base/c_interface.h"
#include "rdmacm/channel.h"
#include "rdmacm/connection.h"
#include "rdmacm/failure.h"
#include "rdmacm/id.h"
#include "rdmacm/multicast.h"
#include "rdmacm/newer.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {
namespace {

// An event that turned out to be none: as if it had been acknowledged.
void swallow(std::unique_ptr<Event> event) { (void)rdma_ack_cm_event(event.release()); }

void describe_connection(Event& event) {
  rdma_conn_param& to = event.param.conn;
  const cm::QpFacts& qp = event.peer.qp;
  to.responder_resources = qp.responder_resources;
  to.initiator_depth = qp.initiator_depth;
  to.flow_control = qp.flow_control ? 1 : 0;
  to.retry_count = event.peer.retry_count;
  to.rnr_retry_count = qp.rnr_retry_count;
  to.srq = qp.srq ? 1 : 0;
  to.qp_num = qp.qpn.value;
}

void describe_datagram(Event& event) {
  if (event.event != RDMA_CM_EVENT_ESTABLISHED) return;
  rdma_ud_param& to = event.param.ud;
  to.ah_attr = describe_way(of(event.id), event.id->route.addr.addr.ibaddr.dgid);
  to.qp_num = event.peer.qp.qpn.value;
  to.qkey = event.peer.qp.qkey;
}

void attach_private_data(Event& event, bool datagram) {
  if (event.private_length == 0) return;
  const void*& data = datagram ? event.param.ud.private_data : event.param.conn.private_data;
  uint8_t& length = datagram ? event.param.ud.private_data_len : event.param.conn.private_data_len;
  data = event.private_bytes.data();
  length = event.private_length;
}

// Whether the program is to see it.
[[nodiscard]] bool admit_request(Event& event) {
  CmId& id = of(event.id);
  CmId& listener = *event.counted;
  int error = take_request(id);
  if (error == 0 && listener.is_alone()) {
    Channel* const own = Channel::create();
    error = own != nullptr ? 0 : errno;
    if (own != nullptr) {
      const MutexLock lock(mailbox().mutex);
      move_home(id, *own);
      id.alone = true;
    }
  }
  if (error != 0) discard_request(id);
  return error == 0;
}

void finish_answer(Event& event) {
  CmId& id = of(event.id);
  const int error = take_answer(id, event.comm, event.peer);
  if (error == 0) {
    if (id.qp != nullptr) event.event = RDMA_CM_EVENT_ESTABLISHED;
    return;
  }
  event.event = RDMA_CM_EVENT_CONNECT_ERROR;
  event.status = -error;
  id.failed = true;
}

// Whether the program is to see it.
[[nodiscard]] bool make_true(Event& event) {
  CmId& id = of(event.id);
  // Nobody's connection.
  const int type = event.event;
  if (type == kEventUser || type == kEventAddrinfoResolved) return true;
  switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      if (!admit_request(event)) return false;
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: finish_answer(event); break;
    case RDMA_CM_EVENT_REJECTED:
      if (id.failed) return false;
      (void)flush_qp(id);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (id.failed) return false;
      id.disconnect_told = true;
      break;
    case RDMA_CM_EVENT_MULTICAST_JOIN: finish_join(event); return true;
    default:                           break;
  }
  if (id.is_datagram()) {
    describe_datagram(event);
  } else {
    describe_connection(event);
  }
  attach_private_data(event, id.is_datagram());
  return true;
}

[[nodiscard]] int get_event(Channel& channel, rdma_cm_event** out) {
  for (;;) {
    std::unique_ptr<Event> event;
    if (const int error = channel.take(event); error != 0) return error;
    if (make_true(*event)) {
      *out = event.release();
      return 0;
    }
    swallow(std::move(event));
  }
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return guarded([=] {
    if (!is_ours(channel) || event == nullptr) return EINVAL;
    return get_event(*static_cast<Channel*>(channel), event);
  });
}
