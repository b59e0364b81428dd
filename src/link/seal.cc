// SPDX-License-Identifier: Apache-2.0
#include "link/seal.h"

#include <algorithm>

namespace verbena::link {

void Seal::put(const wire::Gid& source, const wire::Gid& destination, uint8_t* packet,
               size_t bytes) const {
  std::ranges::copy(tag_.of(source, destination, {packet, bytes}), packet + bytes);
}

std::optional<std::span<const uint8_t>> Seal::open(const Datagram& datagram) const {
  if (datagram.bytes.size() < kBytes) return std::nullopt;
  const auto packet = datagram.bytes.first(datagram.bytes.size() - kBytes);
  const wire::Block right = tag_.of(datagram.source, datagram.destination, packet);
  if (!wire::PacketTag::same(right, packet.data() + packet.size())) return std::nullopt;
  return packet;
}

}  // namespace verbena::link
