// SPDX-License-Identifier: Apache-2.0
#include "transport/attributes.h"

#include <array>

namespace verbena::transport {
namespace {

// IBA 11.2.5.2 / table 91, as Linux spells it: per service, what a transition needs and what it may
// carry.
struct Transition {
  QpState from;
  QpState to;
  uint32_t required[5];  // RC, UC, UD, XRC send, XRC receive
  uint32_t optional[5];
};

constexpr uint32_t kConnected = kAttrPkeyIndex | kAttrPort | kAttrAccess;
constexpr uint32_t kUcRtr = kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
constexpr uint32_t kRcRtr = kUcRtr | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr uint32_t kRtrMay = kAttrAltPath | kAttrAccess | kAttrPkeyIndex;
constexpr uint32_t kRcRts =
    kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic;
constexpr uint32_t kUcRunning = kAttrCurState | kAttrAltPath | kAttrAccess | kAttrPathMigration;
constexpr uint32_t kRcRunning = kUcRunning | kAttrMinRnrTimer;
constexpr uint32_t kUdRunning = kAttrCurState | kAttrQkey;
constexpr uint32_t kUcSqd =
    kAttrPath | kAttrAltPath | kAttrAccess | kAttrPkeyIndex | kAttrPathMigration;
constexpr uint32_t kRcSqd = kUcSqd | kAttrPort | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry |
                            kAttrMaxRdAtomic | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;

constexpr uint32_t kXrcSendSqd =
    kUcSqd | kAttrPort | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic;
constexpr uint32_t kXrcRecvSqd =
    kUcSqd | kAttrPort | kAttrTimeout | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;

using enum QpState;

constexpr Transition kTransitions[] = {
    {kReset,
     kInit,
     {kConnected, kConnected, kAttrPkeyIndex | kAttrPort | kAttrQkey, kConnected, kConnected},
     {}},
    {kInit,
     kInit,
     {},
     {kConnected, kConnected, kAttrPkeyIndex | kAttrPort | kAttrQkey, kConnected, kConnected}},
    {kInit,
     kRtr,
     {kRcRtr, kUcRtr, 0, kUcRtr, kRcRtr},
     {kRtrMay, kRtrMay, kAttrPkeyIndex | kAttrQkey, kRtrMay, kRtrMay}},
    {kRtr,
     kRts,
     {kRcRts, kAttrSqPsn, kAttrSqPsn, kRcRts, kAttrTimeout | kAttrSqPsn},
     {kRcRunning, kUcRunning, kUdRunning, kUcRunning, kRcRunning}},
    {kRts, kRts, {}, {kRcRunning, kUcRunning, kUdRunning | kAttrRateLimit, kUcRunning, kRcRunning}},
    {kRts,
     kSqd,
     {},
     {kAttrSqdNotify, kAttrSqdNotify, kAttrSqdNotify, kAttrSqdNotify, kAttrSqdNotify}},
    {kSqd, kRts, {}, {kRcRunning, kUcRunning, kUdRunning, kUcRunning, kRcRunning}},
    {kSqd, kSqd, {}, {kRcSqd, kUcSqd, kAttrPkeyIndex | kAttrQkey, kXrcSendSqd, kXrcRecvSqd}},
    {kSqe, kRts, {}, {0, kAttrCurState | kAttrAccess, kUdRunning, 0, 0}},
};

[[nodiscard]] constexpr int column(QpType type) {
  switch (type) {
    case QpType::kRc:      break;
    case QpType::kUc:      return 1;
    case QpType::kUd:      return 2;
    case QpType::kXrcSend: return 3;
    case QpType::kXrcRecv: return 4;
  }
  return 0;
}

}  // namespace

Duration rnr_timer(uint8_t field) {
  // IBA table 45, in units of 10 us; field 0 is the longest.
  static constexpr std::array<uint32_t, 32> kTenMicroseconds = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return Duration{kTenMicroseconds[field & 31]} * 10 * kMicrosecond;
}

bool transition_allowed(QpType type, QpState from, QpState to, uint32_t mask) {
  // Any state may go to RESET or ERR, with nothing but the state (and what the caller believes it
  // is).
  if (to == kReset || to == kErr) return (mask & ~(kAttrState | kAttrCurState)) == 0;
  // SQE exists for the unreliable services only (IBA 10.3.1.6).
  if (from == kSqe && is_reliable(type)) return false;
  for (const Transition& transition : kTransitions) {
    if (transition.from != from || transition.to != to) continue;
    const uint32_t required = transition.required[column(type)];
    const uint32_t allowed =
        required | transition.optional[column(type)] | kAttrState | kAttrCurState;
    return (mask & required) == required && (mask & ~allowed) == 0;
  }
  return false;
}

}  // namespace verbena::transport
