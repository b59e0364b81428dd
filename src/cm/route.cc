// SPDX-License-Identifier: Apache-2.0
#include "cm/route.h"

#include "cm/mad.h"
#include "cm/service_id.h"

namespace verbena::cm {
namespace {

Route to_slot(uint32_t id) {
  return {.kind = Route::Kind::kSlot, .slot = static_cast<uint8_t>(id >> 24)};
}

Route to_service(uint64_t service_id, std::span<const uint8_t> private_data) {
  Route route{.kind = Route::Kind::kService, .service_id = service_id};
  if (has_address_header(service_id)) {
    if (const auto header = AddressHeader::read(private_data)) route.address = header->destination;
  }
  return route;
}

struct Router {
  Route operator()(const Req& m) const { return to_service(m.service_id, m.private_data); }
  Route operator()(const SidrReq& m) const { return to_service(m.service_id, m.private_data); }
  Route operator()(const SidrRep& m) const { return to_slot(m.request_id); }
  Route operator()(const Rej& m) const {
    if (m.remote_id == 0) return {.kind = Route::Kind::kEveryone};
    return to_slot(m.remote_id);
  }
  // MRA, REP, RTU, DREQ, DREP
  template <typename M>
  Route operator()(const M& m) const {
    return to_slot(m.remote_id);
  }
};

}  // namespace

Route route(std::span<const uint8_t> mad) {
  const auto decoded = decode(mad);
  if (!decoded) return {};
  return std::visit(Router{}, decoded->message);
}

}  // namespace verbena::cm
