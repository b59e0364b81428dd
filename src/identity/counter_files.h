// SPDX-License-Identifier: Apache-2.0
// The port's counters in /sys, by the names of the InfiniBand standard (counters/) and of the
// kernel's rxe (hw_counters/). Those that a device in software cannot have, or that nobody counts,
// are not there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "link/port_counters.h"

namespace verbena::identity {

struct CounterFile {
  std::string_view path;  // under the port's directory
  link::PortCounter counter;
  uint32_t unit = 1;  // what the file counts in
};

inline constexpr uint32_t kWordBytes = 4;  // data is counted in words
inline constexpr std::array<CounterFile, 18> kCounterFiles{{
    {"counters/port_xmit_data", link::PortCounter::kSentBytes, kWordBytes},
    {"counters/port_xmit_packets", link::PortCounter::kSentPackets},
    {"counters/port_rcv_data", link::PortCounter::kReceivedBytes, kWordBytes},
    {"counters/port_rcv_packets", link::PortCounter::kReceivedPackets},
    {"counters/port_xmit_discards", link::PortCounter::kNotSent},
    {"counters/port_rcv_errors", link::PortCounter::kMalformed},
    {"counters/port_rcv_constraint_errors", link::PortCounter::kNotAMember},
    {"counters/excessive_buffer_overrun_errors", link::PortCounter::kOverflow},
    {"hw_counters/sent_pkts", link::PortCounter::kSentPackets},
    {"hw_counters/rcvd_pkts", link::PortCounter::kReceivedPackets},
    {"hw_counters/duplicate_request", link::PortCounter::kDuplicateRequest},
    {"hw_counters/out_of_seq_request", link::PortCounter::kOutOfSequenceRequest},
    {"hw_counters/rcvd_rnr_err", link::PortCounter::kRnrNakReceived},
    {"hw_counters/send_rnr_err", link::PortCounter::kRnrNakSent},
    {"hw_counters/rcvd_seq_err", link::PortCounter::kSequenceNakReceived},
    {"hw_counters/retry_exceeded_err", link::PortCounter::kRetryExceeded},
    {"hw_counters/retry_rnr_exceeded_err", link::PortCounter::kRnrRetryExceeded},
    {"hw_counters/completer_retry_err", link::PortCounter::kSentAgain},
}};

// What the file says, its end of line included.
[[nodiscard]] std::string counter_text(const CounterFile& file, const link::PortTotals& totals);

}  // namespace verbena::identity
