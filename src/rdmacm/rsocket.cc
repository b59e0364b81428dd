// SPDX-License-Identifier: Apache-2.0
// Sockets over RDMA: not there, for they stand on the connection manager.
#include <rdma/rsocket.h>

#include "base/refuse.h"

VERBENA_REFUSE(minus_one, rsocket);
VERBENA_REFUSE(minus_one, rbind);
VERBENA_REFUSE(minus_one, rlisten);
VERBENA_REFUSE(minus_one, raccept);
VERBENA_REFUSE(minus_one, rconnect);
VERBENA_REFUSE(minus_one, rshutdown);
VERBENA_REFUSE(minus_one, rclose);
VERBENA_REFUSE(minus_one, rpoll);
VERBENA_REFUSE(minus_one, rselect);
VERBENA_REFUSE(minus_one, rgetpeername);
VERBENA_REFUSE(minus_one, rgetsockname);
VERBENA_REFUSE(minus_one, rsetsockopt);
VERBENA_REFUSE(minus_one, rgetsockopt);
VERBENA_REFUSE(minus_one, rfcntl);
VERBENA_REFUSE(minus_one, riounmap);
VERBENA_REFUSE(minus_one_long, rrecv);
VERBENA_REFUSE(minus_one_long, rrecvfrom);
VERBENA_REFUSE(minus_one_long, rrecvmsg);
VERBENA_REFUSE(minus_one_long, rsend);
VERBENA_REFUSE(minus_one_long, rsendto);
VERBENA_REFUSE(minus_one_long, rsendmsg);
VERBENA_REFUSE(minus_one_long, rread);
VERBENA_REFUSE(minus_one_long, rreadv);
VERBENA_REFUSE(minus_one_long, rwrite);
VERBENA_REFUSE(minus_one_long, rwritev);
VERBENA_REFUSE(minus_one_long, riomap);
VERBENA_EXPORT size_t riowrite(int, const void*, size_t, off_t, int) {
  errno = EOPNOTSUPP;
  return static_cast<size_t>(-1);
}
