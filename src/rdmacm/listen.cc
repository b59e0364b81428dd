// SPDX-License-Identifier: Apache-2.0
// Listening.
#include <algorithm>
#include <cerrno>

#include "base/c_interface.h"
#include "rdmacm/connection.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"

namespace verbena::rdmacm {
namespace {

constexpr uint32_t kMostWaiting = 1024;  // as Linux has it

[[nodiscard]] int listen(CmId& id, int backlog) {
  if (id.state == State::kIdle) {
    if (const int error = bind(id, Address::wildcard(AF_INET)); error != 0) return error;
  }
  if (!id.advance(State::kBound, State::kListening)) return EINVAL;
  const auto source = id.source_address();
  if (const int error = id.claim ? 0 : claim_port(id, source->port()); error != 0) {
    id.state = State::kBound;
    return error;
  }
  cm::ListenParams params;
  params.service_id = service_id_of(id, source->port());
  params.address = bound_to(id, *source);
  params.backlog =
      backlog > 0 ? std::min(static_cast<uint32_t>(backlog), kMostWaiting) : kMostWaiting;
  params.context = reinterpret_cast<uintptr_t>(&id);
  const auto listening = id.device->service().listen(params);
  if (!listening) {
    id.state = State::kBound;
    return errno_of(listening.error());
  }
  const MutexLock lock(mailbox().mutex);
  id.listener = *listening;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_listen(rdma_cm_id* id, int backlog) {
  return guarded([=] { return is_ours(id) ? listen(of(id), backlog) : EINVAL; });
}
