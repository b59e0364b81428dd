// SPDX-License-Identifier: Apache-2.0
// The door between this library and librdmacm.so.1. Whenever cm/service.h or what it includes
// changes its layout, the version of this symbol does (libibverbs.map): libraries of two builds
// must not meet.
#include "cm/service.h"
#include "verbs/objects.h"

using namespace verbena::verbs;

VERBENA_EXPORT verbena::cm::Service* verbena_connection_service(ibv_context* context) {
  if (!is_alive(context)) return none(EINVAL);
  return &of(context).device.device().engine().connections();
}
