// SPDX-License-Identifier: Apache-2.0
// The end of a connection is told after what completed before it. A peer's last ACK and its DREQ
// may arrive together; a program that looks for completions, finds none, and then hears of the end
// closes the connection and takes its last sends as flushed (libfabric does). A NIC's ACK is long
// there when a DREQ has made its way through two kernels. So the event waits until the completions
// that were there before it are polled, but not for long: a program need not poll.
//
// Under the engine's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "cm/types.h"

namespace verbena::device {

// How far a queue pair's completion queues are filled.
struct CompletionMarks {
  uint64_t send = 0;
  uint64_t recv = 0;
};

class HeldDisconnects {
 public:
  static constexpr Duration kFirstLook = 20 * kMicrosecond;
  // Longer than a thread of the program waits for its core on a crowded machine.
  static constexpr Duration kLongest = 200 * kMillisecond;

  // Whether everything before the marks was polled, or there is no such queue pair any more.
  using WerePolled = std::function<bool(Qpn, const CompletionMarks&)>;
  explicit HeldDisconnects(WerePolled were_polled) : were_polled_(std::move(were_polled)) {}

  // Keeps the event, if there is something to poll before it. Its spans are not kept.
  [[nodiscard]] bool keep(const cm::Event& event, Qpn qpn, const CompletionMarks& marks, Time now);
  [[nodiscard]] Time next_look() const;
  // The events whose time has come, in their order.
  [[nodiscard]] std::vector<cm::Event> take_due(Time now);
  // That of this connection, if it is kept: something else is about to be said or done about it.
  [[nodiscard]] std::vector<cm::Event> take(cm::CommId id);

 private:
  struct Held {
    cm::Event event;
    Qpn qpn;
    CompletionMarks marks;
    Time since = 0;
    Time look_at = 0;
  };

  WerePolled were_polled_;
  std::vector<Held> held_;
};

}  // namespace verbena::device
