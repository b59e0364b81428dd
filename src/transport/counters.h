// SPDX-License-Identifier: Apache-2.0
// Everything the transport does that is not the plain path is counted here, once, where it is
// decided. The simulator checks that a run reaches each of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counter_set.h"

namespace verbena::transport {

// name, in words
#define VERBENA_COUNTERS(X)                                                      \
  X(kPacketsSent, "packets sent")                                                \
  X(kPacketsReceived, "packets received")                                        \
  X(kAcksSent, "ACKs sent")                                                      \
  X(kAcksReceived, "ACKs received")                                              \
  X(kExtendedAcksSent, "ACKs sent that say what is held")                        \
  X(kExtendedAckReceived, "ACKs received that say what is held")                 \
  X(kAcksCoalesced, "ACK requests answered by a later ACK")                      \
  X(kRunsSent, "runs of packets sent at once")                                   \
  X(kRunsReceived, "runs of packets taken at once")                              \
  /* the responder's verdicts */                                                 \
  X(kNakSequenceSent, "NAKs sent: sequence error")                               \
  X(kNakInvalidRequestSent, "NAKs sent: invalid request")                        \
  X(kNakRemoteAccessSent, "NAKs sent: remote access error")                      \
  X(kNakRemoteOperationalSent, "NAKs sent: remote operational error")            \
  X(kRnrNakSent, "RNR NAKs sent")                                                \
  X(kDuplicateRequest, "duplicate sends and writes re-acknowledged")             \
  X(kDuplicateRead, "duplicate reads re-executed")                               \
  X(kDuplicateAtomic, "duplicate atomics replayed")                              \
  X(kDuplicateForgotten, "duplicate reads and atomics no longer known, dropped") \
  X(kOutOfOrderHeld, "early requests held")                                      \
  X(kOutOfOrderDropped, "early requests dropped")                                \
  X(kUcMessageDropped, "UC messages dropped for a lost packet")                  \
  X(kUcRequestDropped, "UC packets dropped: bad request")                        \
  X(kUdNoReceive, "datagrams dropped: no receive posted")                        \
  X(kUdBadQkey, "datagrams dropped: wrong Q_Key")                                \
  X(kUdTooLong, "datagrams dropped: longer than the receive")                    \
  X(kUdReceiveFault, "datagrams dropped: receive buffer not usable")             \
  /* the requester's */                                                          \
  X(kNakSequenceReceived, "NAKs received: sequence error")                       \
  X(kNakInvalidRequestReceived, "NAKs received: invalid request")                \
  X(kNakRemoteAccessReceived, "NAKs received: remote access error")              \
  X(kNakRemoteOperationalReceived, "NAKs received: remote operational error")    \
  X(kRnrNakReceived, "RNR NAKs received")                                        \
  X(kRetransmittedPackets, "packets sent again")                                 \
  X(kGoBack, "returns to the oldest unacknowledged packet")                      \
  X(kRepair, "repairs: the missing sent again, the rest being held")             \
  X(kNeedlessRepair, "repairs of what was not lost")                             \
  X(kPeerHolds, "peers found to hold early packets")                             \
  X(kTailProbe, "tail probes")                                                   \
  X(kPing, "idle peers asked whether they are there")                            \
  X(kTimeout, "acknowledgement timeouts")                                        \
  X(kRetryExceeded, "retries exhausted")                                         \
  X(kRnrRetryExceeded, "RNR retries exhausted")                                  \
  X(kReadResponseHeld, "early read responses held")                              \
  X(kReadResponseGap, "gaps in read responses")                                  \
  X(kResponseStale, "responses dropped: for what is already complete")           \
  X(kResponseBeyond, "responses dropped: for what was never sent")               \
  X(kResponseMalformed, "responses dropped: not what was asked for")             \
  /* dropped before a queue pair looked at them */                               \
  X(kDropNoQp, "packets dropped: no such queue pair")                            \
  X(kDropWrongState, "packets dropped: queue pair not ready")                    \
  X(kDropWrongService, "packets dropped: service does not match the queue pair") \
  X(kDropWrongPeer, "packets dropped: not from the connected peer")              \
  X(kDropRd, "packets dropped: reliable datagram")                               \
  X(kDropCnp, "congestion notifications ignored")                                \
  X(kCongestionNotice, "congestion notifications heeded")                        \
  X(kCongestionNoticeSent, "congestion notifications sent")                      \
  X(kMarkedReceived, "packets received that met congestion (CE)")

enum class Counter : uint8_t {
#define X(name, text) name,
  VERBENA_COUNTERS(X)
#undef X
      kCount
};

inline constexpr size_t kCounters = static_cast<size_t>(Counter::kCount);

inline constexpr std::array<const char*, kCounters> kCounterText = {
#define X(name, text) text,
    VERBENA_COUNTERS(X)
#undef X
};
inline constexpr std::array<const char*, kCounters> kCounterName = {
#define X(name, text) #name,
    VERBENA_COUNTERS(X)
#undef X
};

using Counters = CounterSet<Counter>;

}  // namespace verbena::transport
