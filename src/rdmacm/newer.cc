// SPDX-License-Identifier: Apache-2.0
// What librdmacm has gained since rdma-core 44: addresses as events, and events of the program's
// own.
#include "rdmacm/newer.h"

#include <cerrno>
#include <cstring>

#include <netdb.h>

#include "base/c_interface.h"
#include "rdmacm/channel.h"
#include "rdmacm/failure.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

void tell_program(CmId& id, int type, int status, uint64_t argument) {
  auto event = std::make_unique<Event>();
  event->id = event->counted = &id;
  event->event = event_type(type);
  event->status = status;
  std::memcpy(&event->param, &argument, sizeof argument);
  post(std::move(event));
}

// A code of getaddrinfo(). -1, for arguments that are none, is EAI_BADFLAGS.
[[nodiscard]] int error_of_code(int code) {
  switch (code) {
    case EAI_SYSTEM:   return errno;
    case EAI_MEMORY:   return ENOMEM;
    case EAI_AGAIN:    return EAGAIN;
    case EAI_BADFLAGS:
    case EAI_FAMILY:
    case EAI_SERVICE:
    case EAI_SOCKTYPE: return EINVAL;
    default:           return ENOENT;
  }
}

// As rdma-core's: the look-up is done in this thread, and the event tells of it.
[[nodiscard]] int resolve_addrinfo(CmId& id, const char* node, const char* service,
                                   const rdma_addrinfo* given) {
  rdma_addrinfo hints{};
  if (given != nullptr) hints = *given;
  // There is no subnet administrator to ask.
  if ((hints.ai_flags & kAskSubnet) != 0) return EOPNOTSUPP;
  hints.ai_flags &= ~kAskNames;
  if (id.resolving.exchange(true)) return EBUSY;
  rdma_addrinfo* found = nullptr;
  if (const int code = rdma_getaddrinfo(node, service, given != nullptr ? &hints : nullptr, &found);
      code != 0) {
    id.resolving = false;
    return error_of_code(code);
  }
  id.resolved.reset(found);
  tell_program(id, kEventAddrinfoResolved, 0, 0);
  return complete(id, {event_type(kEventAddrinfoResolved)});
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                                         const rdma_addrinfo* hints) {
  return guarded(
      [=] { return is_ours(id) ? resolve_addrinfo(of(id), node, service, hints) : EINVAL; });
}

VERBENA_EXPORT int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) {
  return guarded([=] {
    if (!is_ours(id) || info == nullptr) return EINVAL;
    if (of(id).resolved == nullptr) return ENOENT;
    *info = of(id).resolved.release();
    of(id).resolving = false;
    return 0;
  });
}

VERBENA_EXPORT int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status,
                                       uint64_t argument) {
  return guarded([=] {
    if (!is_ours(id) || static_cast<int>(event) != kEventUser) return EINVAL;
    tell_program(of(id), kEventUser, status, argument);
    return 0;
  });
}
