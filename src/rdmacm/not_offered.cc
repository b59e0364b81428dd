// SPDX-License-Identifier: Apache-2.0
// Entry points that are not offered; docs/verbs-coverage.md. Enhanced connections are for devices
// that have something to negotiate.
#include <rdma/rdma_cma.h>

#include "base/refuse.h"

VERBENA_REFUSE(minus_one, rdma_reject_ece);
VERBENA_REFUSE(minus_one, rdma_set_local_ece);
VERBENA_REFUSE(minus_one, rdma_get_remote_ece);
