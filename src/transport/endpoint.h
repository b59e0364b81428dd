// SPDX-License-Identifier: Apache-2.0
// An endpoint: the transport of one device. It owns queue pairs and shared receive queues, hands
// arriving packets to them and runs their timers. Packets, time and randomness are arguments; there
// is no I/O and no thread in it, and one thread at a time may call it.
//
// The owner's loop, after each event:
//     receive(packet, now) for each packet of a batch   requests are executed, responses completed
//     finish_batch(now)                                 owed ACKs, queued replies and sends go to
//     the link (link flush, then completions may be shown to the program) advance(now) by
//     next_deadline(), or when the link has room again
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/id_table.h"
#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "memory/move.h"
#include "transport/core.h"
#include "transport/groups.h"
#include "wire/run.h"

namespace verbena::transport {

struct EndpointLimits {
  uint32_t max_qps = 1 << 16;
  uint32_t max_srqs = 1 << 16;
  uint32_t max_queue_entries = 1 << 15;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint8_t max_rd_atomic = 128;
};

class Endpoint {
 public:
  Endpoint(memory::Domain& memory, PacketSink& link, EventSink& events, RandomSource& random,
           EndpointLimits limits = {}, Tuning tuning = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- objects
  // The number is drawn at random; `wanted` (not zero) asks for a certain one.
  [[nodiscard]] Result<Qpn, Error> create_qp(const QpInit& init, Qpn wanted = Qpn(0));
  // The same in two steps, for an owner with a lock. The first checks the request and takes
  // milliseconds to clear large queues; it reads nothing that changes, so any thread may call it at
  // any time. The second takes the queues when it succeeds, and leaves them when it does not.
  [[nodiscard]] Result<QpQueues, Error> make_queues(const QpInit& init) const;
  [[nodiscard]] Result<Qpn, Error> create_qp(const QpInit& init, Qpn wanted, QpQueues& queues);
  [[nodiscard]] Result<void, Error> modify_qp(Qpn qpn, const QpAttr& attr, uint32_t mask, Time now);
  [[nodiscard]] Result<QpAttr, Error> query_qp(Qpn qpn) const;
  // Gives what is left of it, without its queues, which is to be kept while a thread may be about
  // to post to it without the endpoint: that is refused. It may be freed at any time, also when
  // there is no endpoint any more.
  [[nodiscard]] Result<std::unique_ptr<QueuePair>, Error> destroy_qp(Qpn qpn);

  [[nodiscard]] Result<SharedRecvQueue*, Error> create_srq(PdId pd, uint32_t max_entries,
                                                           uint32_t max_sge, XrcdId xrcd = {},
                                                           CompletionQueue* cq = nullptr);
  [[nodiscard]] Result<void, Error> arm_srq_limit(SrqId srq, uint32_t limit);
  // As with a queue pair.
  [[nodiscard]] Result<std::unique_ptr<SharedRecvQueue>, Error> destroy_srq(SrqId srq);

  // --- whether the peer of a connected queue pair is there
  // When it was last heard; kNever for a number that is none.
  [[nodiscard]] Time heard(Qpn qpn) const;
  // Makes a peer that is there answer, whatever it runs: sends a copy of the last request packet
  // that it acknowledged, which changes nothing. False when that is no use: requests are under way
  // (their timers do it), or the queue pair is not a reliable one that can send.
  bool ping(Qpn qpn);

  // --- multicast: a datagram queue pair receives what is sent to the group. It cannot be destroyed
  // meanwhile.
  [[nodiscard]] Result<void, Error> attach(Qpn qpn, const wire::Gid& group);
  [[nodiscard]] Result<void, Error> detach(Qpn qpn, const wire::Gid& group);
  [[nodiscard]] bool is_attached(Qpn qpn, const wire::Gid& group) const;
  [[nodiscard]] std::vector<wire::Gid> groups_of(Qpn qpn) const;

  // --- counting: from here on, what the queue pair completes of these operations (bits). Before
  // it sends or receives, and once for each operation; ends with the queue pair.
  [[nodiscard]] Result<void, Error> attach_counter(Qpn qpn, OperationCounter& counter,
                                                   uint32_t operations);

  // --- work
  // Entries of a queue in SQD that were not begun and have this wr_id do nothing when their turn
  // comes, and complete. Gives their number.
  [[nodiscard]] Result<uint32_t, Error> cancel_sends(Qpn qpn, uint64_t wr_id);
  [[nodiscard]] Result<void, Error> post_send(Qpn qpn, const SendRequest& request, Time now);
  // Whether there is work that completes when it goes to the error state.
  [[nodiscard]] bool has_posted(Qpn qpn) const;
  [[nodiscard]] Result<void, Error> post_recv(Qpn qpn, const RecvRequest& request);
  [[nodiscard]] Result<void, Error> post_srq_recv(SrqId srq, const RecvRequest& request);

  // --- work posted by threads that do not have the endpoint (posting.h)
  // Stays where it is until it is destroyed; nullptr: there is none.
  [[nodiscard]] QueuePair* queue_pair(Qpn qpn) const { return find(qpn); }
  // Something was appended to its send queue.
  void on_posted(QueuePair& qp, Time now);
  // To its receive queue.
  void on_posted_receives(QueuePair& qp);
  // Any thread may ring; answered by finish_batch(), or sooner.
  [[nodiscard]] Doorbells& doorbells() { return doorbells_; }
  void answer_doorbells(Time now);

  // --- the wire and the clock
  void receive(const InPacket& packet, Time now);
  // The same for the packets that `joined` begins with, each of `segment` bytes, if they are a run
  // (wire/run.h) that can be taken at once. Gives their number; 0: they are to be taken one by one.
  // `is_right(i, packet)` checks the ICRC of packet i; each is placed while it is in the cache.
  template <typename IsRight>
  [[nodiscard]] uint32_t receive_run(std::span<const uint8_t> joined, uint32_t segment,
                                     const wire::Gid& source, const wire::Gid& destination,
                                     uint8_t traffic_class, Time now, IsRight&& is_right);
  // The same for a run whose payload is one piece, all of it right. `ack_request`: of its last.
  [[nodiscard]] uint32_t receive_run(const wire::Run& run, std::span<const uint8_t> payload,
                                     const wire::Gid& source, const wire::Gid& destination,
                                     bool ack_request, Time now);
  // What the socket that other hosts send to has room for, in bytes: said to those that understand
  // it. 0, as at first: nothing is said.
  void set_receive_room(uint64_t bytes) { core_.receive_room.set(bytes); }
  void finish_batch(Time now);
  // The same without the ACKs: they may wait for the program's own next packet, and leave behind
  // it.
  void finish_but_acks(Time now);
  [[nodiscard]] bool owes_acks() const { return !ack_list_.empty(); }
  void advance(Time now);
  // When advance() must be called at the latest; kNever when nothing waits. 0 when there is more to
  // send.
  [[nodiscard]] Time next_deadline() const;
  // The same for timers alone.
  [[nodiscard]] Time next_timer() const {
    return std::min(timers_.next(), destinations_.timers().next());
  }

  [[nodiscard]] const Counters& counters() const { return counters_; }
  // The largest datagram. Never changes.
  [[nodiscard]] uint32_t port_mtu() const { return tuning_.port_mtu; }
  [[nodiscard]] uint32_t qp_count() const { return qps_.size(); }
  [[nodiscard]] uint32_t held_packets() const { return static_cast<uint32_t>(hold_pool_.in_use()); }

 private:
  [[nodiscard]] QueuePair* find(Qpn qpn) const { return qps_.find(qpn.value); }
  void receive_multicast(const InPacket& packet);
  void receive_congestion_notice(const InPacket& packet, Time now);
  [[nodiscard]] RunPlace place_of(const wire::Run& run, const wire::Gid& source,
                                  const wire::Gid& destination) const;
  // Places the payload of one of them; false when it cannot be.
  [[nodiscard]] bool place(const wire::Run& run, const RunPlace& at, uint32_t index,
                           std::span<const uint8_t> payload);
  // So many of them were right and are placed.
  void accept_run(const wire::Run& run, QueuePair& qp, uint32_t packets, bool ack_request,
                  uint8_t traffic_class, Time now);
  void run(Time now);
  [[nodiscard]] bool run_turns(size_t turns, Time now);
  void run_replies();
  void put_served_last();
  void flush_acks();
  // Acknowledges received requests before the queue pair stops.
  void send_owed_acks(QueuePair& qp);

  RandomSource& random_;
  const EndpointLimits limits_;
  const Tuning tuning_;
  Counters counters_;
  HoldPool hold_pool_;
  Doorbells doorbells_;
  TimerHeap<QueuePair> timers_;
  Destinations destinations_;
  OpenRate open_rate_;
  uint32_t rounds_ = 0;
  bool acks_refused_ = false;  // by the last finish_batch(): their receivers had no room
  std::vector<QueuePair*> ack_list_;
  std::vector<QueuePair*> run_list_;
  std::vector<QueuePair*> run_now_;
  RunRoom run_room_;
  Core core_;
  IdTable<QueuePair> qps_;
  IdTable<SharedRecvQueue> srqs_;
  Groups groups_;
};

template <typename IsRight>
uint32_t Endpoint::receive_run(std::span<const uint8_t> joined, uint32_t segment,
                               const wire::Gid& source, const wire::Gid& destination,
                               uint8_t traffic_class, Time now, IsRight&& is_right) {
  const wire::Run run = wire::find_run(joined, segment);
  if (run.packets < 2) return 0;
  const RunPlace place = place_of(run, source, destination);
  bool ack = false;
  uint32_t taken = 0;
  for (; taken < place.packets; ++taken) {
    const auto packet = joined.subspan(size_t{taken} * segment, segment);
    if (!is_right(taken, packet)) break;
    const auto payload = packet.subspan(wire::Bth::kBytes, run.payload_bytes());
    if (place.at != nullptr) [[likely]] {
      memory::store(place.at + size_t{taken} * payload.size(), payload, false);
    } else if (!this->place(run, place, taken, payload)) {
      break;
    }
    ack = ack || wire::asks_for_ack(packet.data());
  }
  if (taken != 0) accept_run(run, *place.qp, taken, ack, traffic_class, now);
  return taken;
}

}  // namespace verbena::transport
