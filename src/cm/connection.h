// SPDX-License-Identifier: Apache-2.0
// One entry of the connection manager's table: a connection, an exchange of SIDR, or what rests of
// either. The manager owns and changes it.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "cm/mad.h"
#include "cm/types.h"
#include "wire/gid.h"

namespace verbena::cm {

enum class State : uint8_t {
  kReqSent,
  kReqReceived,  // the program is asked
  kRepSent,
  kRepReceived,  // the program is asked
  kEstablished,
  kDreqSent,
  kTimewait,
  kRefused,  // we sent a REJ, and do so again if the request comes again
  kSidrReqSent,
  kSidrReqReceived,
  kSidrReplied,  // and do so again if the request comes again
};
[[nodiscard]] const char* to_string(State state);

struct Connection {
  TimerHook timer;  // for sending again, giving up, and the end of timewait
  CommId id;
  State state = State::kReqSent;
  bool passive = false;       // the peer made the request
  bool released = false;      // the program has let go of it: no events
  bool told_end = false;      // of what ended before its DREQ was answered
  bool mra_honoured = false;  // a peer gets more time once for each message, as from Linux
  QpKind kind = QpKind::kRc;
  uint64_t context = 0;
  ListenerId listener;
  wire::Gid source;
  wire::Gid destination;
  uint32_t remote_id = 0;  // 0: not known yet
  Qpn local_qpn;
  Qpn remote_qpn;  // 0: not known yet
  uint64_t service_id = 0;
  uint64_t transaction = 0;

  uint8_t max_cm_retries = 0;
  uint8_t resends = 0;         // of our messages, by the clock
  Duration response_time = 0;  // how long the peer may take to answer, travel included
  Duration timewait = 0;
  Duration linger = 0;  // after a refusal

  // A peer that waits for the program's answer says its message again within this time.
  Duration says_again = 0;

  MadBuffer last{};  // what goes again when the peer does not answer, or asks again
  Duration resend_after = 0;
  Time grace_until = 0;      // a REQ that nobody listens to goes again until then,
  Duration grace_pause = 0;  // after longer and longer
  Time give_up = kNever;

  [[nodiscard]] bool is_sidr() const {
    return state == State::kSidrReqSent || state == State::kSidrReqReceived ||
           state == State::kSidrReplied;
  }
  // A peer's request that a program has not answered.
  [[nodiscard]] bool waits_for_program() const {
    return state == State::kReqReceived || state == State::kSidrReqReceived;
  }
  // A peer's request that has come to no end.
  [[nodiscard]] bool is_half_open() const {
    return waits_for_program() || state == State::kRepSent;
  }
  [[nodiscard]] bool lingers() const {
    return state == State::kRefused || state == State::kSidrReplied;
  }
};

}  // namespace verbena::cm
