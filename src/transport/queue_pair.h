// SPDX-License-Identifier: Apache-2.0
// A queue pair: what was asked for when it was made, its attributes, and the two machines in it.
// The send side is driven by requester.h, completer.h and recovery.h, the receive side by
// responder.h, read_replies.h and datagram.h; endpoint.h owns it. Touched by one thread at a time,
// who has the endpoint (the engine's lock), but for what posting needs (posting.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "transport/attributes.h"
#include "transport/destination.h"
#include "transport/doorbells.h"
#include "transport/hold.h"
#include "transport/operation_counter.h"
#include "transport/poster.h"
#include "transport/recv_queue.h"
#include "transport/scoreboard.h"
#include "transport/send_queue.h"
#include "transport/work.h"
#include "wire/psn.h"

namespace verbena::transport {

struct QpInit {
  QpType type = QpType::kRc;
  PdId pd{};
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  SharedRecvQueue* srq = nullptr;  // instead of a receive queue of its own
  XrcdId xrcd{};                   // kXrcRecv: the domain, which stands for PD, CQ and SRQ
  SendQueueCaps send{};
  uint32_t max_recv_entries = 0;
  uint32_t max_recv_sge = 0;
  bool signal_all = false;
  bool signature_pipelining = false;  // a wrong signature stops the send queue (SQD)
  bool block_own_multicast = false;   // UD: does not hear what it sends to a group itself
};

struct QpQueues {
  SendQueue send;
  RecvQueue recv;
};

// What is in flight, and how much may be. Costs are payload plus a fixed share for headers and the
// receiver's bookkeeping, so that many small packets count too.
// How much of one queue pair's may be under way, and of all together to one other host.
struct FlightLimits {
  uint32_t max_bytes = 0;      // as cost: payload + kPacketOverhead for each packet
  uint32_t initial_bytes = 0;  // to another host: of all queue pairs that go there
  uint32_t max_packets = 0;
  uint32_t ack_every = 0;  // an AckReq at least every so many packets of a long message
};

struct Window {
  FlightLimits limits;
  uint64_t sent_cost = 0;    // of everything sent, as if each packet were sent once
  uint64_t acked_cost = 0;   // of everything before `una`
  uint64_t allowed = 0;      // how far sent_cost may run ahead of acked_cost
  uint64_t grow_credit = 0;  // cost acknowledged since the last growth
  bool shrunk = false;       // it was too large once: grows slowly from then on
};

// Round-trip estimate (RFC 6298's filter), from packets that were sent once, and from the first
// repair of one.
struct RoundTrip {
  Duration smoothed = 0;  // 0: no sample yet
  Duration variation = 0;
  bool timing = false;
  wire::Psn timed_psn;
  Time timed_at = 0;
  bool timed_repair = false;  // it was sent before, and the peer said that it has it not

  void add(Duration sample);
};

// Of the oldest packet that is out, if it is large (black_hole.h).
struct BlackHole {
  bool answered = false;  // something came back since the last silence
  uint8_t silences = 0;   // in which something came back, and no answer to it
};

struct SendSide {
  // una <= psn at the cursor <= sent_end <= assign (modular): out and unacknowledged are
  // [una, cursor's psn); [cursor's psn, sent_end) was sent before and will be sent again;
  // [sent_end, assign) belongs to entries that are started but was never sent.
  wire::Psn una;
  wire::Psn sent_end;
  wire::Psn assign;
  wire::Psn resent_end;         // no packet from this one on was sent twice
  uint64_t cursor = 0;          // entry of the send queue
  uint32_t cursor_packet = 0;   // packet within it
  uint32_t rd_outstanding = 0;  // READ and atomic requests out and not fully answered
  uint32_t unrequested = 0;     // packets since the last AckReq,
  wire::Psn requested_end;      // which was the packet's before this one
  Window window;
  RoundTrip rtt;
  Hold hold;                // early read responses
  uint16_t acked_from = 0;  // UDP port of the last ACK of something new
  // By Direction: what is known of each packet that is out (selective.h); most have none.
  std::array<std::unique_ptr<Scoreboard>, 2> boards;
  Time look_at = kNever;  // then something that is missing may be lost
  bool news = false;      // something arrived, of which only they know

  bool peer_holds = false;  // the peer keeps early packets: repair instead of going back
  bool recovering = false;  // a loss was seen; until una reaches recover_until it counts as one
  wire::Psn recover_until;
  uint32_t losses = 0;            // seen since then
  uint32_t losses_allowed = 0;    // before the window is to blame
  bool repaired = false;          // the last thing done about a loss was to send packets before
  wire::Psn repaired_until;       // this one again,
  Time repaired_at = 0;           // then
  bool resend_waits = false;      // packets [resend_from, resend_end) go again when there is room,
  bool resend_responses = false;  // asked for, if they are of responses
  wire::Psn resend_from;
  wire::Psn resend_end;
  bool asked = false;  // responses missing before asked_until were asked for again
  wire::Psn asked_until;
  wire::Psn oldest_asked;  // una, when it was last asked for
  Time oldest_asked_at = 0;
  wire::Psn last_gap;        // where the last loss was
  uint32_t gap_spacing = 0;  // packets between losses, smoothed; 0: not known
  bool probing = false;      // a tail probe is out,
  Time probed_at = 0;        // since then;
  wire::Psn probed;          // it is a copy of this packet,
  wire::Psn probed_until;    // and was sent after all before this one
  uint8_t probes = 0;        // since the last round trip was measured: doubles the wait
  uint8_t retries_left = 0;
  Time unread_since = kNever;  // timeouts find the receiver alive and what was sent unread
  uint8_t rnr_left = 0;
  Time rnr_until = 0;    // no sending before; 0: not waiting
  bool refused = false;  // it waits for room at the receiver, not for an answer
  Time probe_at = kNever;
  Time timeout_at = kNever;
  bool drained_notified = true;  // SQ_DRAINED is not owed
  bool answer_awaited = false;   // the next entry waits for what is out, which may not have asked
  wire::Gid multicast_source{};  // of the last datagram to a group
  BlackHole black_hole;
  bool signature_stop = false;  // of a pipelined queue pair: stops before it starts another
};

// What a queue pair has under way in one direction of the way to another host.
struct WayShare {
  uint64_t unacked = 0;  // sent, since it last went back, and not acknowledged
  uint64_t charged = 0;  // of it, what counts against the way's window
  uint64_t acked = 0;    // since flow::on_progress()
  // While a loss is repaired the charge falls from this to nothing within a round trip,
  uint64_t falls_from = 0;
  Time falls_since = 0;
  uint64_t sent_since = 0;  // and what was sent since then is added.
};

// A packet whose answer is waited for, to see how long it takes, and how much is delivered
// meanwhile.
struct TimedPacket {
  wire::Psn psn;
  Direction direction = Direction::kOut;
  Time at = 0;
  uint64_t delivered = 0;  // before it was sent
};

// The part of a queue pair whose peer is on another host in what is under way there (flow.h).
struct FlowSide {
  Destination* destination = nullptr;  // nullptr: its peer is on this host, or it has none yet
  std::array<WayShare, 2> shares{};    // by Direction
  Way* waits_at = nullptr;             // in line there,
  QueuePair* next_waiting = nullptr;   // before this one
  QueuePair* previous_waiting = nullptr;
  bool listed_repairing = false;  // in its destination's list
  uint64_t wants = 0;             // room for so much; 0: for a repair, which needs none
  bool has_turn = false;
  Way* turn_at = nullptr;               // it was given, to one that waited there
  std::array<TimedPacket, 16> timed{};  // a ring, oldest first
  uint32_t timed_first = 0;
  uint32_t timed_count = 0;
};

// A READ or atomic request that was accepted: answered in order, and kept for duplicates.
struct ReadReply {
  // kEmpty: an ATOMIC WRITE, answered by a read response without payload.
  enum class Kind : uint8_t { kFree, kRead, kAtomic, kEmpty };
  Kind kind = Kind::kFree;
  bool pending = false;  // has packets to send
  bool fresh = false;    // not yet answered once
  wire::Psn first_psn;   // of the original request
  uint32_t packets = 0;
  RKey rkey;
  RemoteAddr addr;  // of the original request
  uint32_t length = 0;
  uint32_t msn = 0;
  uint64_t atomic_result = 0;
  PdId pd;  // of the request
  // What is being sent now: packets [next, end) of the original, answering a request that began at
  // `from`.
  uint32_t from = 0;
  uint32_t next = 0;
  uint32_t end = 0;
  uint32_t last_bytes = 0;  // payload of packet end - 1
  uint32_t answered = 0;    // packets that went out, from the original's first on
  // Other parts of it that were asked for again, to be sent after this one.
  struct Part {
    uint32_t from = 0;
    uint32_t end = 0;
    uint32_t last_bytes = 0;

    [[nodiscard]] bool overlaps(uint32_t begin, uint32_t until) const {
      return from < until && begin < end;
    }
  };
  static constexpr uint32_t kMaxParts = 16;
  std::array<Part, kMaxParts> parts{};
  uint32_t parts_count = 0;

  [[nodiscard]] bool again() const { return next < answered; }
};

struct RecvSide {
  wire::Psn expected;
  uint32_t msn = 0;
  enum class InMessage : uint8_t { kNone, kSend, kWrite };
  InMessage in_message = InMessage::kNone;
  uint64_t received = 0;  // payload bytes of the message so far
  // the WRITE under way
  RKey write_rkey;
  RemoteAddr write_addr;
  uint64_t write_length = 0;

  TakenReceive taken;
  bool nak_sent = false;  // one NAK per gap: silent until `expected` arrives
  bool nak_owed = false;  // a gap was seen while read replies had to go first
  bool ack_due = false;
  bool understands = false;    // the peer understands extended acknowledgements
  uint8_t early = 0;           // packets that came early since the last of them
  bool has_duplicate = false;  // one came twice since then,
  wire::Psn duplicate;         // the last of them this one
  bool in_ack_list = false;
  bool established = false;  // first packet seen in RTR
  bool uc_discard = false;   // UC: drop until the next First or Only
  Hold hold;                 // early requests

  std::vector<ReadReply> replies;  // ring of max_dest_rd_atomic
  uint32_t replies_next = 0;       // where the next request goes
  uint32_t replies_pending = 0;
};

// What a thread that posts has to know of the attributes; it may not have the endpoint. Each is
// read for itself, relaxed: who posts while the queue pair changes may be before or after the
// change.
struct PostRules {
  std::atomic<bool> sends{false};
  std::atomic<bool> receives{false};
  std::atomic<uint8_t> max_rd_atomic{0};
};

struct QueuePair {
  QueuePair(Qpn number, const QpInit& init, QpQueues queues)
      : qpn(number),
        type(init.type),
        pd(init.pd),
        send_cq(init.send_cq),
        recv_cq(init.recv_cq),
        srq(init.srq),
        xrcd(init.xrcd),
        signal_all(init.signal_all),
        signature_pipelining(init.signature_pipelining),
        block_own_multicast(init.block_own_multicast),
        sq(std::move(queues.send)),
        rq(std::move(queues.recv)) {
    recv.taken.list.reserve(srq != nullptr ? srq->queue.max_sge() : init.max_recv_sge);
  }

  const Qpn qpn;
  const QpType type;
  // An XRC target's, and its recv_cq and srq, are those of the message under way.
  PdId pd;
  CompletionQueue* const send_cq;
  CompletionQueue* recv_cq;
  SharedRecvQueue* srq;
  const XrcdId xrcd;
  const bool signal_all;
  const bool signature_pipelining;
  const bool block_own_multicast;

  QpAttr attr;
  uint32_t mtu = 1024;  // bytes, of attr.mtu
  SendQueue sq;
  RecvQueue rq;
  Poster send_poster;
  Poster recv_poster;
  PostRules rules;
  Doorbell doorbell;
  // What is posted is flushed. Set before what was posted is; with full_fence() it pairs with
  // posting::must_ring().
  std::atomic<bool> flushes{false};
  SendSide send;
  RecvSide recv;
  FlowSide flow;

  TimerHook timer;
  Time heard_at = 0;            // when a packet of the peer's last came
  Time notified_at = -kSecond;  // when it was last told of congestion (marks.h)
  bool served = false;          // sent something in this round of turns
  bool runnable = false;        // in the endpoint's list of queue pairs with something to send

  std::unique_ptr<AttachedCounters> counters;  // most have none
  void count(CountedOp op, WcStatus status, uint64_t bytes) const {
    if (counters != nullptr) counters->count(op, status, bytes);
  }
  void count(SendOp op, WcStatus status, uint64_t bytes) const {
    if (counters != nullptr) counters->count(op, status, bytes);
  }

  // Something of its send queue's had a wrong signature.
  void note_signature_error() { send.signature_stop = signature_pipelining; }

  [[nodiscard]] wire::Service service() const;
  [[nodiscard]] QpState state() const { return attr.state; }
  // All changes of attr.state and attr.max_rd_atomic go, or end, here.
  void set_state(QpState state);
  [[nodiscard]] bool can_receive() const {
    return attr.state == QpState::kRtr || attr.state == QpState::kRts ||
           attr.state == QpState::kSqd || attr.state == QpState::kSqe;
  }
  [[nodiscard]] bool can_send() const {
    return attr.state == QpState::kRts || attr.state == QpState::kSqd;
  }
  [[nodiscard]] RecvQueue& receive_queue() { return srq != nullptr ? srq->queue : rq; }
  // Whose keys the lists of receives name; a shared receive queue may be of another domain (IBA
  // 10.2.9.1).
  [[nodiscard]] PdId receive_pd() const { return srq != nullptr ? srq->pd : pd; }
  // PSN of the packet the cursor points at.
  [[nodiscard]] wire::Psn cursor_psn() const;
};

}  // namespace verbena::transport
