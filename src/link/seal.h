// SPDX-License-Identifier: Apache-2.0
// Packets between hosts that carry a tag behind their ICRC (wire/packet_tag.h), made with a secret
// that both ends were given: from a network nothing else is believed. Within the host packets have
// none: there the sender is known by its port, or by its ring.
//
// Owned by the engine's lock holder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "link/datagram.h"
#include "link/local_addresses.h"
#include "wire/packet_tag.h"

namespace verbena::link {

class Seal {
 public:
  static constexpr uint32_t kBytes = wire::PacketTag::kBytes;

  Seal(LocalAddresses& host, const wire::TagKey& key) : host_(host), tag_(key) {}

  // Multicast leaves the host as well.
  [[nodiscard]] bool is_wanted_to(const wire::Gid& destination) {
    return !host_.contains(destination);
  }
  [[nodiscard]] bool is_wanted_from(const Datagram& datagram) {
    return !host_.contains(datagram.source) || datagram.destination.is_multicast();
  }
  // Behind the packet, where there is room.
  void put(const wire::Gid& source, const wire::Gid& destination, uint8_t* packet,
           size_t bytes) const;
  // The packet without its tag; none: the tag is not there, or not right.
  [[nodiscard]] std::optional<std::span<const uint8_t>> open(const Datagram& datagram) const;

 private:
  LocalAddresses& host_;
  wire::PacketTag tag_;
};

}  // namespace verbena::link
