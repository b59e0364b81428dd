// SPDX-License-Identifier: Apache-2.0
#include "link/whole_packet.h"

#include <algorithm>

#include "base/check.h"
#include "wire/packet.h"

namespace verbena::link {

std::span<const uint8_t> whole_packet(std::span<uint8_t> room, const wire::IcrcFlow& flow,
                                      std::span<const uint8_t> headers,
                                      std::span<const uint8_t> payload) {
  const size_t pad = -payload.size() % 4;
  const size_t covered = headers.size() + payload.size() + pad;
  VERBENA_CHECK(covered + wire::kIcrcBytes <= room.size());
  auto end = std::ranges::copy(headers, room.begin()).out;
  end = std::ranges::copy(payload, end).out;
  std::fill_n(end, pad, uint8_t{0});
  wire::store_icrc(room.data() + covered, wire::icrc(flow, room.first(covered)));
  return room.first(covered + wire::kIcrcBytes);
}

}  // namespace verbena::link
