// SPDX-License-Identifier: Apache-2.0
// Options of an id.
#include <cerrno>
#include <cstring>

#include "base/c_interface.h"
#include "rdmacm/failure.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

template <typename T>
[[nodiscard]] std::optional<T> read(const void* value, size_t length) {
  if (value == nullptr || length != sizeof(T)) return std::nullopt;
  T given;
  std::memcpy(&given, value, sizeof given);
  return given;
}

[[nodiscard]] int set_service_type(CmId& id, const void* value, size_t length) {
  const auto given = read<uint8_t>(value, length);
  if (!given) return EINVAL;
  id.service_type = *given;
  return 0;
}

[[nodiscard]] int set_ack_timeout(CmId& id, const void* value, size_t length) {
  const auto given = read<uint8_t>(value, length);
  if (!given || *given > 31 || id.is_datagram()) return EINVAL;  // a field of five bits
  id.ack_timeout = given;
  return 0;
}

// Of what is about the port, nothing after it was bound.
template <typename Option>
[[nodiscard]] int set_before_bound(CmId& id, Option CmId::* option, const void* value,
                                   size_t length) {
  const auto given = read<int>(value, length);
  if (!given || id.state != State::kIdle) return EINVAL;
  id.*option = *given != 0;
  return 0;
}

[[nodiscard]] int set_option(CmId& id, int level, int name, const void* value, size_t length) {
  // Routes of InfiniBand, from a subnet's manager.
  if (level == RDMA_OPTION_IB) return EOPNOTSUPP;
  if (level != RDMA_OPTION_ID) return ENOSYS;
  switch (name) {
    case RDMA_OPTION_ID_TOS:         return set_service_type(id, value, length);
    case RDMA_OPTION_ID_REUSEADDR:   return set_before_bound(id, &CmId::shares_port, value, length);
    case RDMA_OPTION_ID_AFONLY:      return set_before_bound(id, &CmId::one_family, value, length);
    case RDMA_OPTION_ID_ACK_TIMEOUT: return set_ack_timeout(id, value, length);
    default:                         return ENOSYS;
  }
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int name, void* value,
                                   size_t length) {
  return guarded([=] {
    if (!is_ours(id)) return EINVAL;
    return set_option(of(id), level, name, value, length);
  });
}
