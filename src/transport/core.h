// SPDX-License-Identifier: Apache-2.0
// What the machines inside a queue pair need from the endpoint around them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/id_table.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "memory/domain.h"
#include "transport/counters.h"
#include "transport/destination.h"
#include "transport/hold.h"
#include "transport/open_rate.h"
#include "transport/queue_pair.h"
#include "transport/receive_room.h"
#include "transport/work.h"

namespace verbena::transport {

struct Tuning {
  // To other hosts. The window begins with 16 packets of 1024 bytes and grows with the way
  // (congestion.h); no more packets of one queue pair than a peer may be expected to hold.
  FlightLimits flight{.max_bytes = 64 * 1024 * 1024,
                      .initial_bytes = 20 * 1024,
                      .max_packets = Hold::kMaxAhead,
                      .ack_every = 16};
  // What fits the receive buffer of another host's socket on most machines (212,992 bytes), with
  // room for the kernel's own bookkeeping.
  uint64_t receiver_bytes = 160 * 1024;
  // Where the link itself sees to the receiver's buffer (PacketSink::paces).
  FlightLimits paced{
      .max_bytes = 1024 * 1024, .initial_bytes = 1024 * 1024, .max_packets = 512, .ack_every = 64};
  // Held packets, for all queue pairs together: 68 MiB if all are in use at once.
  uint32_t hold_buffers = 2 * Hold::kMaxPackets;
  // Packets one queue pair may send before others get their turn: two messages of 64 KiB at MTU
  // 1024, so that the end of one and the beginning of the next leave together.
  uint32_t quantum = 128;
  // Tail probes: never sooner than this, and this long when there is no round-trip estimate yet.
  Duration min_probe = 50 * kMicrosecond;
  Duration first_probe = 5 * kMillisecond;
  // The same while no acknowledgement of what is out was asked for.
  Duration unasked_probe = kMillisecond;
  // So long a receiver of this host that lives and reads nothing costs no retries.
  Duration unread_patience = 10 * kSecond;
  // UD payload limit: the port's MTU.
  uint32_t port_mtu = wire::kMaxMtu;
};

inline constexpr uint32_t kPacketOverhead = 256;
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

// Where the payload of a run is put together that does not lie side by side.
struct RunRoom {
  static constexpr size_t kBytes = size_t{64} * 1024;
  std::array<std::span<const uint8_t>, 256> slots;
  std::vector<uint8_t> staging = std::vector<uint8_t>(kBytes);
};

// Where the payload of an arriving run's first packets goes, and how many that are.
struct RunPlace {
  QueuePair* qp = nullptr;
  uint8_t* at = nullptr;  // nullptr: each packet's has to be placed by itself
  uint32_t packets = 0;
};

struct Core {
  memory::Domain& memory;
  PacketSink& link;
  EventSink& events;
  HoldPool& hold_pool;
  Counters& counters;
  TimerHeap<QueuePair>& timers;
  Destinations& destinations;
  OpenRate& open_rate;
  std::vector<QueuePair*>& ack_list;  // queue pairs that owe an ACK at the end of the batch
  std::vector<QueuePair*>& run_list;  // queue pairs with more to send
  const IdTable<SharedRecvQueue>& srqs;
  RunRoom& run_room;
  const Tuning& tuning;
  // A receiver had no room in the last round of turns: until the next round nobody sends out of
  // turn, or who waits would wait for ever.
  bool crowded = false;
  ReceiveRoom receive_room{};

  void count(Counter counter, uint64_t n = 1) const { counters.add(counter, n); }
  void make_runnable(QueuePair& qp) const {
    if (qp.runnable) return;
    qp.runnable = true;
    run_list.push_back(&qp);
  }
};

}  // namespace verbena::transport
