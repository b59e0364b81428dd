// SPDX-License-Identifier: Apache-2.0
// The inside of SharedLink: what it knows of each ring.
#pragma once

#include <cstdint>
#include <utility>

#include "link/ring.h"
#include "link/shared_link.h"

namespace verbena::link {

// What each packet of a run carries; 0: it is none that a sender writes.
[[nodiscard]] inline uint32_t payload_of_each(const RecordHead& head) {
  const uint32_t each = head.packets < 2 ? 0 : head.payload_bytes / head.packets;
  const bool is_run = head.header_bytes == wire::Bth::kBytes && each % 4 == 0 &&
                      each <= wire::kMaxMtu && each * head.packets == head.payload_bytes;
  return is_run ? each : 0;
}

struct SharedLink::Out {
  Out(Ring made, uint8_t to, uint32_t its_incarnation)
      : ring(std::move(made)), slot(to), incarnation(its_incarnation) {}

  RingWriter ring;
  uint8_t slot;
  uint32_t incarnation;
  // Of the last record; compared with that of each packet.
  struct Flow {
    wire::Gid source;
    wire::Gid destination;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint32_t interface_index = 0;

    [[nodiscard]] bool is_of(const transport::Path& path) const {
      return destination == path.destination && source == path.source &&
             traffic_class == path.traffic_class && hop_limit == path.hops() &&
             interface_index == path.interface_index;
    }
  };
  Flow flow;
  bool has_flow = false;
  bool touched = false;       // since the last flush
  bool refused = false;       // since the last flush
  bool was_refused = false;   // and nothing went there since
  bool unresponsive = false;  // when it was refused: for so long that what goes there is lost
  bool clean = true;          // no memory is behind it
  uint64_t written = 0;       // when it was last looked whether it is idle
  Time take_by = kNever;      // or it is withdrawn; kNever: it was taken
};

struct SharedLink::In {
  In(Ring adopted, uint8_t from, uint32_t its_incarnation)
      : ring(std::move(adopted)), slot(from), incarnation(its_incarnation) {}

  RingReader ring;
  uint8_t slot;
  uint32_t incarnation;
  // Of the records that follow; none is believed before there is one, and while its addresses are
  // not the host's.
  bool has_flow = false;
  bool is_local = false;
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  bool told = false;  // that it is broken
};

}  // namespace verbena::link
