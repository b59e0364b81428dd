// SPDX-License-Identifier: Apache-2.0
// A network in virtual time: ports with addresses, links with a rate and a delay, faults from a
// seeded source, partitions. Frames are whole Ethernet frames. One thread owns it; the caller holds
// the clock: nothing happens but by send() and deliver_due().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "link/faults.h"
#include "link/simulated_queue.h"
#include "wire/gid.h"

namespace verbena::link {

using PortId = uint32_t;

struct FrameEvent {
  enum class Kind : uint8_t {
    kSent,
    kLost,
    kOverflowed,  // a queue on the way was full
    kBlocked,
    kDuplicated,
    kDelayed,
    kCorrupted,
    kArrived,
    kNoPort
  };
  Kind kind;
  Time time;
  PortId from;
  PortId to;
  uint64_t serial;  // of the frame as sent; copies share it
  std::span<const uint8_t> bytes;
};

class NetworkObserver {
 public:
  virtual ~NetworkObserver() = default;
  virtual void on_frame(const FrameEvent& event) = 0;
};

class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  virtual void on_arrival(std::vector<uint8_t> frame, Time now) = 0;
};

struct LinkSpeed {
  Duration delay = 10 * kMicrosecond;  // one way
  uint64_t bits_per_second = 0;        // of each port's way out; 0: no limit
  Duration queue = kMillisecond;  // a port whose way out is busy for longer than this has no room
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(const LinkSpeed& speed, FaultSource& faults) : speed_(speed), faults_(faults) {}

  PortId attach(const wire::Gid& address, FrameReceiver& receiver);
  void set_observer(NetworkObserver* observer) { observer_ = observer; }

  // Takes a frame for `destination`; frames to nobody are dropped.
  void send(PortId from, const wire::Gid& destination, std::span<const uint8_t> frame, Time now);
  // The same, untouched by faults, partitions and delay: for an attacker on the wire.
  void inject(const wire::Gid& destination, std::vector<uint8_t> frame, Time now);

  // Whether port `from` can take another frame, and when it can.
  [[nodiscard]] bool has_room(PortId from, Time now) const;
  [[nodiscard]] Time room_at(PortId from) const;

  // Frames from one port to another go through this queue, which others may share and which
  // outlives the network, before the network's own delay.
  void set_queue(PortId from, PortId to, SimulatedQueue& queue);

  // Frames from one port to another do not pass while blocked; those on their way do.
  void set_blocked(PortId from, PortId to, bool blocked);

  // When the next frame arrives; kNever when none is on its way.
  [[nodiscard]] Time next_arrival() const;
  void deliver_due(Time now);
  [[nodiscard]] uint64_t blocked_frames() const { return blocked_frames_; }
  [[nodiscard]] uint64_t frames_sent() const { return next_serial_; }

 private:
  struct Port {
    wire::Gid address;
    FrameReceiver* receiver;
    Time free_at = 0;  // its way out is busy until then
    std::vector<bool> blocked;
    std::vector<SimulatedQueue*> queues;  // towards each port; nullptr: none
  };
  struct InFlight {
    Time arrival;
    uint64_t order;
    uint64_t serial;
    PortId from;
    PortId to;
    std::vector<uint8_t> frame;
    // Latest first, for the standard library's heap functions.
    [[nodiscard]] bool operator<(const InFlight& other) const {
      return arrival != other.arrival ? arrival > other.arrival : order > other.order;
    }
  };
  [[nodiscard]] const Port* find(const wire::Gid& address, PortId& id) const;
  void launch(PortId from, PortId to, uint64_t serial, std::vector<uint8_t> frame, Time arrival);
  void tell(FrameEvent::Kind kind, Time now, PortId from, PortId to, uint64_t serial,
            std::span<const uint8_t> bytes) const;

  LinkSpeed speed_;
  FaultSource& faults_;
  NetworkObserver* observer_ = nullptr;
  std::deque<Port> ports_;
  std::vector<InFlight> heap_;
  uint64_t next_serial_ = 0;
  uint64_t next_order_ = 0;
  uint64_t blocked_frames_ = 0;
};

}  // namespace verbena::link
