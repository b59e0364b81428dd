// SPDX-License-Identifier: Apache-2.0
// epoll for rsockets, which newer releases than rdma-core 44 have: not there.
#include <sys/epoll.h>

#include "base/refuse.h"

extern "C" {
int repoll_create(int);
int repoll_ctl(int, int, int, epoll_event*);
int repoll_wait(int, epoll_event*, int, int);
}

VERBENA_REFUSE(minus_one, repoll_create);
VERBENA_REFUSE(minus_one, repoll_ctl);
VERBENA_REFUSE(minus_one, repoll_wait);
