// SPDX-License-Identifier: Apache-2.0
#include "device/management_rules.h"

#include "cm/mad.h"
#include "cm/route.h"

namespace verbena::device {
namespace {

class Rules final : public link::ManagementRules {
 public:
  [[nodiscard]] link::ManagementAttributes attributes() const override {
    return {.request = static_cast<uint16_t>(cm::Attribute::kReq),
            .sidr_request = static_cast<uint16_t>(cm::Attribute::kSidrReq),
            .sidr_reply = static_cast<uint16_t>(cm::Attribute::kSidrRep)};
  }
  [[nodiscard]] link::ManagementRoute route(std::span<const uint8_t> message) const override {
    if (message.size() < cm::kMadBytes) return {};
    const cm::Route route = cm::route(message.first(cm::kMadBytes));  // a tag may follow
    return {.kind = kind_of(route.kind),
            .slot = route.slot,
            .service_id = route.service_id,
            .address = route.address};
  }

 private:
  [[nodiscard]] static link::ManagementRoute::Kind kind_of(cm::Route::Kind kind) {
    using Kind = link::ManagementRoute::Kind;
    switch (kind) {
      case cm::Route::Kind::kNobody:   return Kind::kNobody;
      case cm::Route::Kind::kSlot:     return Kind::kSlot;
      case cm::Route::Kind::kService:  return Kind::kService;
      case cm::Route::Kind::kEveryone: return Kind::kEveryone;
    }
    return Kind::kNobody;
  }
};

}  // namespace

const link::ManagementRules& management_rules() {
  static constinit const Rules rules;
  return rules;
}

}  // namespace verbena::device
