// SPDX-License-Identifier: Apache-2.0
// Our device is no EFA: programs that are linked to its library load, and are told so.
#include <infiniband/efadv.h>

#include "base/refuse.h"

VERBENA_REFUSE(null, efadv_create_driver_qp);
VERBENA_REFUSE(null, efadv_create_qp_ex);
VERBENA_REFUSE(null, efadv_create_cq);
VERBENA_REFUSE(null, efadv_cq_from_ibv_cq_ex);
VERBENA_REFUSE(error_number, efadv_query_device);
VERBENA_REFUSE(error_number, efadv_query_ah);
