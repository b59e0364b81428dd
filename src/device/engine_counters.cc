// SPDX-License-Identifier: Apache-2.0
// What the engine shows of its counters to the other processes of the host.
#include <numeric>

#include "device/engine.h"

namespace verbena::device {

using link::PortCounter;
using transport::Counter;

// After every batch: four stores to a line that is ours alone.
void Engine::show_traffic() {
  const link::TransmitCounters& out = link_->transmit_counters();
  const link::ReceiveCounters& in = link_->receive_counters();
  port_counters_->set(PortCounter::kSentBytes, out.bytes);
  port_counters_->set(PortCounter::kSentPackets, out.packets);
  port_counters_->set(PortCounter::kReceivedBytes, in.bytes);
  port_counters_->set(PortCounter::kReceivedPackets, in.packets);
}

void Engine::show_trouble(Time now) {
  constexpr Duration kAgain = kMillisecond;
  trouble_due_ = now + kAgain;
  const link::TransmitCounters& out = link_->transmit_counters();
  const link::IntakeCounters& taken = link_->intake_counters();
  const transport::Counters& events = endpoint_->counters();
  const auto show = [&](PortCounter counter, uint64_t value)
                        VERBENA_REQUIRES(lock_) { port_counters_->set(counter, value); };
  show(PortCounter::kNotSent, out.errors + out.to_unresponsive + out.to_nobody);
  show(PortCounter::kMalformed,
       std::accumulate(std::begin(taken.parse_errors), std::end(taken.parse_errors),
                       taken.bad_icrc + taken.bad_records));
  show(PortCounter::kNotAMember, taken.not_a_member);
  show(PortCounter::kOverflow, link_->receive_counters().overflow);
  show(PortCounter::kDuplicateRequest, events[Counter::kDuplicateRequest] +
                                           events[Counter::kDuplicateRead] +
                                           events[Counter::kDuplicateAtomic]);
  show(PortCounter::kOutOfSequenceRequest,
       events[Counter::kOutOfOrderHeld] + events[Counter::kOutOfOrderDropped]);
  show(PortCounter::kRnrNakReceived, events[Counter::kRnrNakReceived]);
  show(PortCounter::kRnrNakSent, events[Counter::kRnrNakSent]);
  show(PortCounter::kSequenceNakReceived, events[Counter::kNakSequenceReceived]);
  show(PortCounter::kRetryExceeded, events[Counter::kRetryExceeded]);
  show(PortCounter::kRnrRetryExceeded, events[Counter::kRnrRetryExceeded]);
  show(PortCounter::kSentAgain, events[Counter::kRetransmittedPackets]);
}

}  // namespace verbena::device
