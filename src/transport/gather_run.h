// SPDX-License-Identifier: Apache-2.0
// The payload of packets that leave together: where it lies side by side, as it lies; else put
// together from pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "memory/domain.h"
#include "transport/core.h"

namespace verbena::transport {

// Up to `most` packets of `mtu` bytes each. `stretch(n)` gives as much of n bytes as lies side by
// side, `gather(n, pieces)` any n bytes or a fault. None, or less than two packets: no run.
template <typename Stretch, typename Gather>
[[nodiscard]] OutRun gather_run(RunRoom& room, uint32_t mtu, uint32_t most, Stretch&& stretch,
                                Gather&& gather) {
  if (most < 2) return {};
  OutRun run{.packet_payload = mtu, .packets = most};
  const std::span<const uint8_t> plain = stretch(uint64_t{most} * mtu);
  if (plain.size() == uint64_t{most} * mtu) [[likely]] {
    room.slots[0] = plain;
    run.payload = {room.slots.data(), 1};
    return run;
  }
  run.packets = std::min<uint32_t>(most, static_cast<uint32_t>(room.staging.size() / mtu));
  memory::Pieces pieces(room.staging, room.slots);
  if (gather(run.packets * mtu, pieces) != memory::Fault::kNone) return {};
  run.payload = pieces.list();
  run.copy_first = pieces.staged();  // the room is used again for the next
  return run;
}

}  // namespace verbena::transport
