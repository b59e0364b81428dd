// SPDX-License-Identifier: Apache-2.0
// The connection manager: all connections of one process, and the exchanges that make and end them
// (IBA chapter 12; docs/connections.md draws them). No I/O: messages come in by on_mad() and leave
// by MadSink, time and randomness are arguments, what a program must know goes to EventSink. Called
// by one thread at a time; the sinks must not call back into it.
//
// Always holds: a CommId that a call or an event gave is either in the table, or the event that
// says it is gone was delivered, or release() was called; and every connection that is neither
// established nor its program's to end has a timer, so that each exchange ends in bounded time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/random.h"
#include "base/result.h"
#include "base/time.h"
#include "base/timer_heap.h"
#include "cm/connection.h"
#include "cm/connection_table.h"
#include "cm/counters.h"
#include "cm/half_open.h"
#include "cm/listeners.h"
#include "cm/mad.h"
#include "cm/types.h"
#include "wire/gid.h"

namespace verbena::cm {

class MadSink {
 public:
  virtual ~MadSink() = default;
  // As the payload of a datagram from QP1 to QP1, Q_Key 0x80010000. May be lost.
  virtual void send_mad(const wire::Gid& source, const wire::Gid& destination, MadBytes mad) = 0;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const Event& event) = 0;
};

struct Config {
  uint8_t slot = 0;      // top byte of our ids: the link steers by it
  uint64_t ca_guid = 0;  // the device's node GUID
  uint32_t max_connections = 65536;
  // Of requests that peers made and that are not established yet (nor lingering after a refusal).
  uint32_t max_half_open = 4096;
  // Of those, from one address that is not ours.
  uint32_t max_half_open_each = 1024;
  // Our answer to a request goes again this often while its address is silent (half_open.h): who
  // claims another's address must not have it flooded by us. Its own repetitions are answered.
  uint8_t silent_resends = 2;
  // An unanswered message goes again after this, then after twice that, and so on up to the timeout
  // that the REQ's fields give; they also say when to give up. Linux waits its 6 s from the start.
  Duration first_resend = 250 * kMillisecond;
  // However long the peer's fields say. What Linux asks for (16 times 6.4 s) stays below.
  Duration max_patience = 128 * kSecond;
  // A DREQ goes again every second at the latest: nobody has to think before the answer, and if all
  // are lost the peer learns nothing.
  Duration max_disconnect_resend = kSecond;
  Duration max_disconnect_patience = 16 * kSecond;
  Duration max_timewait = 8 * kSecond;
  // A service that nobody offers is asked for again during this time, for programs that agree on a
  // port over one connection and at once use it for the next: theirs may not listen yet.
  Duration listener_grace = 0;
  uint8_t mra_timeout = 24;  // a code, 69 s: what we ask for while the program thinks
};

class Manager {
 public:
  Manager(const Config& config, MadSink& mads, EventSink& events, RandomSource& random);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // ---- the passive side
  [[nodiscard]] Result<ListenerId, Error> listen(const ListenParams& params);
  // Requests that it was asked about stay, and are to be answered.
  Result<void, Error> unlisten(ListenerId id);
  // After kConnectRequest: REP, sent until RTU comes or the peer's patience is over.
  [[nodiscard]] Result<void, Error> accept(CommId id, const AcceptParams& params, Time now);
  // Data of the peer's has arrived before its RTU (IBV_EVENT_COMM_EST): as good as the RTU.
  Result<void, Error> data_arrived(CommId id, Time now);

  // ---- the active side
  [[nodiscard]] Result<CommId, Error> connect(const ConnectParams& params, Time now);
  // After kConnectResponse, the queue pair being ready: RTU. Established from here on; no event.
  [[nodiscard]] Result<void, Error> establish(CommId id, std::span<const uint8_t> private_data,
                                              Time now);

  // ---- both
  // After kConnectRequest, accept() or kConnectResponse: REJ. The id is gone.
  Result<void, Error> reject(CommId id, const RejectParams& params, Time now);
  // Asks the peer for more time (MRA, a code of times.h) before accept() or establish(). Without
  // this a peer that asks again is told so anyway.
  Result<void, Error> ask_for_time(CommId id, uint8_t service_timeout, Time now);
  // After accept() or establish(): DREQ, sent until DREP comes or max_disconnect_patience is over:
  // kDisconnected. Where the end is already on its way (kDreqSent, kTimewait) it does nothing and
  // succeeds.
  Result<void, Error> disconnect(CommId id, std::span<const uint8_t> private_data, Time now);
  // The peer was found to be not there any more: kDisconnected at once. It is sent DREQ all the
  // same, in case it is. Before the connection was made: kRejected, as if it had refused.
  Result<void, Error> connection_lost(CommId id, Time now);
  // The program has no more use for it (rdma_destroy_id): what the peer is owed in this state is
  // sent (REJ, DREQ, a SIDR refusal), and no event of it comes any more. The id is gone.
  void release(CommId id, Time now);
  // release() of all, each peer being told once; for a process that ends.
  void leave(Time now);

  // ---- UD
  [[nodiscard]] Result<CommId, Error> sidr_request(const SidrRequestParams& params, Time now);
  // After kSidrRequest. The id is gone.
  Result<void, Error> sidr_reply(CommId id, const SidrReplyParams& params, Time now);

  // ---- what drives it
  // A datagram's payload that came to QP1 at address `our` from `peer`. Any bytes.
  void on_mad(const wire::Gid& our, const wire::Gid& peer, std::span<const uint8_t> bytes,
              Time now);
  // When on_timer() is due; possibly early, never late.
  [[nodiscard]] Time next_timer() const { return timers_.next(); }
  void on_timer(Time now);

  // ---- what one can ask
  // Of what the program still has; nothing when the id is gone.
  [[nodiscard]] std::optional<State> state(CommId id) const;
  // What events of this connection shall carry from now on.
  Result<void, Error> set_context(CommId id, uint64_t context);
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // Entries of the table: connections, and what rests or lingers after them.
  [[nodiscard]] size_t size() const { return table_.size(); }
  [[nodiscard]] size_t half_open() const { return half_open_.size(); }

 private:
  // What one message says, with where it came from.
  struct From {
    const wire::Gid& our;
    const wire::Gid& peer;
    const MadHeader& header;
    Time now;
  };

  // manager.cc
  [[nodiscard]] Connection* held(CommId id) const;  // by the program
  void set_state(Connection& c, State state);
  void count(const Connection& c, bool added);
  void erase(Connection& c);
  void emit(const Connection& c, Event event);
  void finish(Connection& c, const Event& event);  // erases it, then tells
  void put(const wire::Gid& source, const wire::Gid& destination, const MadBuffer& mad);
  template <typename M>
  void send(Connection& c, const M& message);  // kept as c.last
  void send_last(Connection& c);
  void wait_for_answer(Connection& c, Duration patience, Time now);
  // While the program thinks: the peer is to be heard again, or is not there any more.
  void expect_again(Connection& c, Duration pause, Time now);
  void enter_timewait(Connection& c, Time now);
  void end(Connection& c, const Event& event, Time now);  // timewait, and tells
  void linger(Connection& c, State state, Time now);
  void on_timer_of(Connection& c, Time now);
  void give_up(Connection& c, Time now);
  void evict(Connection& c);

  // manager_end.cc
  void send_rej(Connection& c, const RejectParams& params);
  void send_timeout_rej(Connection& c);
  void send_dreq(Connection& c, std::span<const uint8_t> private_data, Time now);
  void lose(Connection& c, RejectReason reason, Time now);
  void send_mra(Connection& c, About about, uint8_t service_timeout, Time now);

  // manager_receive.cc
  [[nodiscard]] Connection* addressed(const From& from, uint32_t our_id, uint32_t peer_id);
  void refuse(const From& from, uint32_t peer_id, RejectReason reason, About about);
  void on(const From& from, const Rep& m);
  void on(const From& from, const Rtu& m);
  void on(const From& from, const Mra& m);
  void on(const From& from, const Rej& m);
  void on(const From& from, const Dreq& m);
  void on(const From& from, const Drep& m);
  [[nodiscard]] bool ask_again(Connection& c, Time now);  // who said that nobody listens
  void on_rep_again(const From& from, Connection& c, const Rep& m);

  // manager_request.cc
  void on(const From& from, const Req& m);
  void on_req_again(const From& from, Connection& c);
  [[nodiscard]] std::optional<RejectReason> objection(const From& from, const Req& m) const;
  [[nodiscard]] bool has_room(const From& from, const Listener& listener);
  [[nodiscard]] bool make_room_in_backlog(const From& from, const Listener& listener);
  [[nodiscard]] bool make_room_half_open(const From& from);
  void ask_program(const From& from, const Req& m, Listener& listener,
                   const std::optional<AddressHeader>& addresses);

  // manager_sidr.cc
  void on(const From& from, const SidrReq& m);
  void on(const From& from, const SidrRep& m);
  void send_sidr_rep(Connection& c, const SidrReplyParams& params, Time now);

  const Config config_;
  MadSink& mads_;
  EventSink& events_;
  RandomSource& random_;
  ConnectionTable table_;
  Listeners listeners_;
  TimerHeap<Connection> timers_;
  Counters counters_;
  HalfOpen half_open_;
  size_t lingering_ = 0;
};

}  // namespace verbena::cm
