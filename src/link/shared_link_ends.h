// SPDX-License-Identifier: Apache-2.0
// The inside of SharedLink: what it knows of each ring.
#pragma once

#include <cstdint>
#include <utility>

#include "link/ring.h"
#include "link/shared_link.h"

namespace verbena::link {

struct SharedLink::Out {
  Out(Ring made, uint8_t to, uint32_t its_incarnation)
      : ring(std::move(made)), slot(to), incarnation(its_incarnation) {}

  RingWriter ring;
  uint8_t slot;
  uint32_t incarnation;
  RingFlow flow;  // of the last record
  bool has_flow = false;
  bool touched = false;      // since the last flush
  bool refused = false;      // since the last flush
  bool was_refused = false;  // and nothing went there since
  bool clean = true;         // no memory is behind it
  uint64_t written = 0;      // when it was last looked whether it is idle
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
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  bool told = false;  // that it is broken
};

}  // namespace verbena::link
  bool is_local = false;
