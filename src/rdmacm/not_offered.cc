// SPDX-License-Identifier: Apache-2.0
// Entry points of the connection manager, whose operations are not there; docs/verbs-coverage.md.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "base/refuse.h"

// Channels, identifiers, endpoints.
VERBENA_REFUSE(null, rdma_create_event_channel);
VERBENA_REFUSE(nothing, rdma_destroy_event_channel);
VERBENA_REFUSE(minus_one, rdma_create_id);
VERBENA_REFUSE(minus_one, rdma_destroy_id);
VERBENA_REFUSE(minus_one, rdma_migrate_id);
VERBENA_REFUSE(minus_one, rdma_create_ep);
VERBENA_REFUSE(nothing, rdma_destroy_ep);
VERBENA_REFUSE(minus_one, rdma_set_option);
VERBENA_REFUSE(minus_one, rdma_get_cm_event);
VERBENA_REFUSE(minus_one, rdma_ack_cm_event);

// Addresses and devices. rdma_getaddrinfo() has the codes of getaddrinfo(), of which none fits.
VERBENA_REFUSE(minus_one, rdma_getaddrinfo);
VERBENA_REFUSE(nothing, rdma_freeaddrinfo);
VERBENA_REFUSE(minus_one, rdma_bind_addr);
VERBENA_REFUSE(minus_one, rdma_resolve_addr);
VERBENA_REFUSE(minus_one, rdma_resolve_route);
VERBENA_REFUSE(null, rdma_get_devices);
VERBENA_REFUSE(nothing, rdma_free_devices);

// Queues.
VERBENA_REFUSE(minus_one, rdma_create_qp);
VERBENA_REFUSE(minus_one, rdma_create_qp_ex);
VERBENA_REFUSE(nothing, rdma_destroy_qp);
VERBENA_REFUSE(minus_one, rdma_init_qp_attr);
VERBENA_REFUSE(minus_one, rdma_create_srq);
VERBENA_REFUSE(minus_one, rdma_create_srq_ex);
VERBENA_REFUSE(nothing, rdma_destroy_srq);

// Connections.
VERBENA_REFUSE(minus_one, rdma_listen);
VERBENA_REFUSE(minus_one, rdma_get_request);
VERBENA_REFUSE(minus_one, rdma_connect);
VERBENA_REFUSE(minus_one, rdma_establish);
VERBENA_REFUSE(minus_one, rdma_accept);
VERBENA_REFUSE(minus_one, rdma_reject);
VERBENA_REFUSE(minus_one, rdma_reject_ece);
VERBENA_REFUSE(minus_one, rdma_notify);
VERBENA_REFUSE(minus_one, rdma_disconnect);
VERBENA_REFUSE(minus_one, rdma_set_local_ece);
VERBENA_REFUSE(minus_one, rdma_get_remote_ece);

// Multicast.
VERBENA_REFUSE(minus_one, rdma_join_multicast);
VERBENA_REFUSE(minus_one, rdma_join_multicast_ex);
VERBENA_REFUSE(minus_one, rdma_leave_multicast);
