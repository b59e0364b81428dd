// SPDX-License-Identifier: Apache-2.0
// What newer releases of rdma-core can ask the device, and the names private to rdma-core that its
// own programs import.
#include "identity/identity.h"
#include "verbs/objects.h"

using namespace verbena::verbs;
namespace identity = verbena::identity;

// In units of 100 Mb/s: what ibv_query_port and /sys say, 1X of 2.5 Gb/s.
VERBENA_EXPORT int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) {
  static_assert(identity::kPort.width == 1 && identity::kPort.speed == 1);
  if (!is_alive(context) || speed == nullptr || port != identity::kPortNumber) {
    return verbena::with_errno(EINVAL);
  }
  *speed = 25;
  return 0;
}

// Flushing is in newer headers.
VERBENA_EXPORT const char* ibv_wr_opcode_str(ibv_wr_opcode opcode) {
  constexpr int kFlush = 14;
  switch (static_cast<int>(opcode)) {
    case IBV_WR_RDMA_WRITE:           return "rdma-write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:  return "rdma-write-with-imm";
    case IBV_WR_SEND:                 return "send";
    case IBV_WR_SEND_WITH_IMM:        return "send-with-imm";
    case IBV_WR_RDMA_READ:            return "rdma-read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:   return "atomic-cmp-and-swp";
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return "atomic-fetch-and-add";
    case IBV_WR_LOCAL_INV:            return "local-inv";
    case IBV_WR_BIND_MW:              return "bind-mw";
    case IBV_WR_SEND_WITH_INV:        return "send-with-inv";
    case IBV_WR_TSO:                  return "tso";
    case IBV_WR_DRIVER1:              return "driver1";
    case kFlush:                      return "flush";
    case IBV_WR_ATOMIC_WRITE:         return "atomic-write";
    default:                          return "unknown";
  }
}

// rdma-core gives its private names a new version whenever one of them changes: 34 for years, then
// others up to 65. Its own programs import these two.
VERBENA_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index,
                                      int* type);
#define VERBENA_PRIVATE_NAMES(release)                                                            \
  VERBENA_EXPORT int verbena_gid_type_##release(ibv_context* context, uint8_t port,               \
                                                unsigned index, int* type) {                      \
    return ibv_query_gid_type(context, port, index, type);                                        \
  }                                                                                               \
  VERBENA_EXPORT const char* verbena_opcode_str_##release(ibv_wr_opcode opcode) {                 \
    return ibv_wr_opcode_str(opcode);                                                             \
  }                                                                                               \
  __asm__(".symver verbena_gid_type_" #release ", ibv_query_gid_type@IBVERBS_PRIVATE_" #release); \
  __asm__(".symver verbena_opcode_str_" #release ", ibv_wr_opcode_str@IBVERBS_PRIVATE_" #release)

VERBENA_PRIVATE_NAMES(57);
VERBENA_PRIVATE_NAMES(58);
VERBENA_PRIVATE_NAMES(59);
VERBENA_PRIVATE_NAMES(60);
VERBENA_PRIVATE_NAMES(61);
VERBENA_PRIVATE_NAMES(62);
VERBENA_PRIVATE_NAMES(63);
VERBENA_PRIVATE_NAMES(64);
VERBENA_PRIVATE_NAMES(65);
