// SPDX-License-Identifier: Apache-2.0
// What there is to do whenever somebody makes progress (progress.h): packets to take, timers, ACKs
// and completions. The engine's; the simulator has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "link/link.h"

namespace verbena::device {

enum class Acks : uint8_t { kSend, kHold };

// With the engine's lock held, but for what is marked.
class ProgressWork {
 public:
  virtual ~ProgressWork() = default;

  // --- receiving
  // Takes packets that are there, at most a batch; gives the number of pieces they came in.
  [[nodiscard]] virtual size_t receive(link::Look look, Time now) = 0;
  // The same for a thread that slept (Link::receive_ready()).
  [[nodiscard]] virtual size_t receive_ready(link::ReadyFds ready, Time now) = 0;
  // Whether the last of these may have left something.
  [[nodiscard]] virtual bool may_have_left() const = 0;
  // A poller's look, all in one: it polls again and again.
  struct Looked {
    size_t pieces = 0;
    bool owed_acks = false;  // before
    bool has_work = false;   // now; known if there were no pieces
  };
  [[nodiscard]] virtual Looked look(Time now) = 0;
  // Whether a look would find nothing, as far as that can be seen without the system and the clock:
  // no packets, nothing owed, nothing that waits for room. Time alone may still bring something.
  [[nodiscard]] virtual bool is_quiet() const = 0;
  // How many, ever.
  [[nodiscard]] virtual uint64_t packets_received() const = 0;
  // Whether more like the last are likely.
  [[nodiscard]] virtual bool expects_more() const = 0;

  // --- what follows from it
  // Timers that are due, owed ACKs, replies; then the link is flushed and completions are shown.
  virtual void settle(Time now, Acks acks) = 0;
  [[nodiscard]] virtual bool owes_acks() const = 0;
  // Whether settle() will show some.
  [[nodiscard]] virtual bool has_completions() const = 0;
  // The last settle() had something to send, and no receiver had room.
  [[nodiscard]] virtual bool is_stalled() const = 0;
  // Whether a timer is due, or there is more to send and room for it.
  [[nodiscard]] virtual bool has_work(Time now) = 0;
  // When settle() is wanted; past when there is more to send.
  [[nodiscard]] virtual Time next_deadline() = 0;

  // --- the helper's own
  // Other members of the host are answered.
  virtual void on_ready(Time now, bool readable) = 0;
  // Looks whether the program must be told something; gives the time of the next look.
  [[nodiscard]] virtual Time note_troubles(Time now) = 0;
  // Says it. Without the lock.
  virtual void tell_troubles() = 0;

  // --- sleeping, as the link has it
  // Before a thread sleeps on packets. False: something is there already.
  [[nodiscard]] virtual bool prepare_sleep() = 0;
  // Before they receive, by a thread that slept on packets or would otherwise.
  virtual void woke(link::ReadyFds ready) = 0;
  // While true, look() is called again and again, and nobody need wake us.
  virtual void set_polling(bool polling) = 0;
};

}  // namespace verbena::device
