// SPDX-License-Identifier: Apache-2.0
// Address vectors that lead back to where a datagram came from.
#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

struct Origin {
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
};

[[nodiscard]] wire::Gid mapped(const uint8_t* ipv4) {
  wire::Gid gid;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  std::copy_n(ipv4, 4, gid.bytes.begin() + 12);
  return gid;
}

// The 40 bytes before a datagram have the shape of an IPv6 header here; other devices put an IPv4
// header into the second half, and programs that hand them on may have met those.
[[nodiscard]] Origin origin_of(const ibv_grh& grh) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&grh);
  const uint8_t* const ipv4 = bytes + 20;
  Origin origin;
  if (bytes[0] >> 4 != 6 && *ipv4 == 0x45) {
    origin.source = mapped(ipv4 + 12);
    origin.destination = mapped(ipv4 + 16);
    origin.traffic_class = ipv4[1];
    return origin;
  }
  const uint32_t word = load_be32(bytes);
  origin.traffic_class = static_cast<uint8_t>(word >> 20);
  origin.flow_label = word & 0xfffff;
  std::copy_n(bytes + 8, 16, origin.source.bytes.begin());
  std::copy_n(bytes + 24, 16, origin.destination.bytes.begin());
  return origin;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                       ibv_ah_attr* attr) {
  if (!is_alive(context) || wc == nullptr || attr == nullptr) {
    errno = EINVAL;
    return -1;
  }
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  if (grh == nullptr) {
    errno = EINVAL;
    return -1;
  }
  const Origin origin = origin_of(*grh);
  const auto index = of(context).device.device().gids().find(origin.destination);
  if (!index || port != 1) {
    errno = EINVAL;
    return -1;
  }
  constexpr uint8_t kMostHops = 0xff;
  attr->is_global = 1;
  std::memcpy(attr->grh.dgid.raw, origin.source.bytes.data(), sizeof attr->grh.dgid.raw);
  attr->grh.flow_label = origin.flow_label;
  attr->grh.sgid_index = static_cast<uint8_t>(*index);
  attr->grh.hop_limit = kMostHops;
  attr->grh.traffic_class = origin.traffic_class;
  return 0;
}

VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  if (!is_alive(pd)) return none(EINVAL);
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}
