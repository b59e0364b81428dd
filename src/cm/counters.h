// SPDX-License-Identifier: Apache-2.0
// What the connection manager did that is not the plain exchange, counted once, where it is
// decided.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counter_set.h"

namespace verbena::cm {

// name, in words
#define VERBENA_CM_COUNTERS(X)                                                \
  X(kMadsSent, "messages sent")                                               \
  X(kMadsReceived, "messages received")                                       \
  X(kMadsSentAgain, "messages sent again for want of an answer")              \
  X(kGaveUp, "exchanges given up for want of an answer")                      \
  X(kMraSent, "MRAs sent: still at it")                                       \
  X(kMraHonoured, "MRAs received that gave the peer more time")               \
  X(kDuplicateReq, "duplicate REQs")                                          \
  X(kDuplicateRep, "duplicate REPs")                                          \
  X(kDuplicateRtu, "duplicate RTUs")                                          \
  X(kDuplicateDreq, "duplicate DREQs")                                        \
  X(kDuplicateSidr, "duplicate SIDR_REQs")                                    \
  X(kStaleConnection, "requests that found a connection of an earlier life")  \
  X(kNoListener, "requests for a service that nobody offers")                 \
  X(kAskedAgain, "requests made again of a service that nobody offers yet")   \
  X(kBacklogFull, "requests not heard: the listener's backlog is full")       \
  X(kHalfOpenFull, "requests not heard: too many are half open")              \
  X(kSourceFull, "requests not heard: too many of one address are half open") \
  X(kEvicted, "half open requests of silent addresses given up for others")   \
  X(kKeptSilent, "answers not repeated: the address has never answered")      \
  X(kTableFull, "requests not heard: the table is full")                      \
  X(kUnknownId, "messages for a connection that is not there")                \
  X(kUnknownDreq, "DREQs for a connection that is not there, answered")       \
  X(kWrongPeer, "messages dropped: not from the connection's peer")           \
  X(kWrongState, "messages dropped: not due in the connection's state")       \
  X(kBadRequest, "requests refused: a field makes no sense")                  \
  X(kMalformed, "messages dropped: not of connection management")

enum class Counter : uint8_t {
#define X(name, text) name,
  VERBENA_CM_COUNTERS(X)
#undef X
      kCount
};

inline constexpr size_t kCounters = static_cast<size_t>(Counter::kCount);

inline constexpr std::array<const char*, kCounters> kCounterText = {
#define X(name, text) text,
    VERBENA_CM_COUNTERS(X)
#undef X
};

using Counters = CounterSet<Counter>;

}  // namespace verbena::cm
