// SPDX-License-Identifier: Apache-2.0
// One simulated process: the device's own Progress, completion queues, rings (SharedLink) and
// credits (CreditLedger), and between them the least of a transport: messages to each peer in
// order, acknowledged cumulatively; no loss, so no retransmission. To some peers it goes through
// rings, to others through datagrams with credits, as the seed says.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/completion_channel.h"
#include "device/completion_queue.h"
#include "device/progress.h"
#include "link/credits.h"
#include "link/intake.h"
#include "link/shared_link.h"
#include "progress_sim/guarded.h"
#include "progress_sim/host.h"
#include "progress_sim/scheduler.h"

namespace verbena::progress_sim {

// What a process says about what should not be.
using Report = std::function<void(const std::string&)>;

class Process final : private device::ProgressWork,
                      private device::ProgressWorld,
                      private device::CompletionOwner,
                      private link::Intake {
 public:
  static constexpr uint8_t kPeers = 9;

  Process(Scheduler& scheduler, Host& host, uint8_t slot, uint32_t id, Report report);
  ~Process() override;

  // --- threads of the program
  // False: the peer is not there.
  [[nodiscard]] bool post(uint8_t peer, uint32_t count, uint32_t bytes);
  [[nodiscard]] uint32_t poll(device::CompletionQueue& cq);
  void arm(device::CompletionQueue& cq);
  // One event of the channel.
  void wait(device::CompletionChannel& channel);
  // The same for a program that sleeps on the descriptor, as in an event loop of its own.
  void wait_for_descriptor(device::CompletionChannel& channel);
  [[nodiscard]] device::CompletionQueue& sent() { return sent_; }
  [[nodiscard]] device::CompletionQueue& received() { return received_; }
  [[nodiscard]] device::CompletionChannel& sent_channel() { return sent_channel_; }
  [[nodiscard]] device::CompletionChannel& received_channel() { return received_channel_; }
  // Messages that lie in the program's memory: what it may spin on.
  [[nodiscard]] uint64_t in_memory() const { return in_memory_; }

  // --- what goes while others are at work (process_ends.cc)
  // The queue pair towards this peer, and another takes its place: what it had posted and was not
  // told completes no more.
  void replace_queue_pair(uint8_t peer);
  // A second completion queue on the receiver's channel, which gets some of what arrives. One at a
  // time.
  [[nodiscard]] device::CompletionQueue& make_spare();
  void destroy_spare();
  // The process ends in good order: its threads have ended, but for the one that calls. First all
  // that others wait for leaves and the helper is told; when that has ended, the rest.
  void shut_down();
  void leave();

  // --- fork (process_fork.cc): around it, by the thread that forks
  void before_fork() VERBENA_NO_THREAD_SAFETY;
  void after_fork_in_parent() VERBENA_NO_THREAD_SAFETY;
  void after_fork_in_child() VERBENA_NO_THREAD_SAFETY;
  // Whatever a child may do with what it inherited: nothing comes of it.
  void use_in_child();
  // What others could change of it, all its descriptors.
  [[nodiscard]] std::vector<bool> readable() const;

  void run_helper() {
    progress_.run_helper();
    helper_ended_ = true;
  }
  [[nodiscard]] bool helper_ended() const { return helper_ended_; }
  // A look as any later activity brings it.
  void look_in_passing() { progress_.poll(); }
  // When its helper looks up by itself.
  [[nodiscard]] Time helper_until() const { return helper_until_; }
  [[nodiscard]] Time last_traffic() const { return last_traffic_; }

  // For the world: its sender has nothing more to do; its threads sleep on channels.
  bool done_sending = false;
  bool uses_events = true;
  bool leaving = false;   // its threads end as soon as they can
  uint32_t programs = 0;  // threads that have not

  [[nodiscard]] uint8_t slot() const { return slot_; }
  // The scheduler's.
  [[nodiscard]] uint32_t id() const { return id_; }
  [[nodiscard]] uint64_t helper_wakeups() const { return progress_.counters().helper_wakeups; }
  [[nodiscard]] bool has_datagrams_out() const;
  // A thread has its lock.
  [[nodiscard]] bool is_at_work() const;
  // What it has open, for people.
  [[nodiscard]] std::string describe() const;
  // Whatever is not as it should be when nothing is on its way.
  void check_rest();
  void check_credits();
  void check_peers(const std::vector<std::unique_ptr<Process>>& all);

 private:
  // Which of the link's descriptors is which.
  static constexpr size_t kDatagrams = 0;
  static constexpr size_t kBell = 1;
  struct Header {
    uint64_t sequence = 0;  // of data; of an acknowledgement: how many arrived
    uint32_t from_incarnation = 0;
    uint32_t to_incarnation = 0;
    uint32_t cost = 0;  // of a datagram
    uint32_t from_qp = 0;
    uint32_t to_qp = 0;
    uint8_t from = 0;
    bool is_ack = false;
  };
  struct Peer {
    uint32_t incarnation = 0;
    bool by_ring = false;
    Qpn qpn{};               // in completions
    uint32_t qp = 1;         // which queue pair towards this peer it is, as the peer knows it
    uint32_t peer_qp = 1;    // and the peer's towards us
    bool owes_word = false;  // the peer does not know of ours
    uint64_t posted = 0;
    uint64_t sent = 0;
    uint64_t acked = 0;
    uint64_t received = 0;
    uint64_t ack_sent = 0;
    uint64_t unannounced = 0;      // packets in its ring since the last flush
    std::deque<uint32_t> bytes{};  // of those not sent
  };

  // ProgressWork
  [[nodiscard]] size_t receive(link::Look look, Time now) override;
  [[nodiscard]] size_t receive_ready(link::ReadyFds ready, Time now) override;
  [[nodiscard]] bool may_have_left() const override { return may_have_left_; }
  [[nodiscard]] Looked look(Time now) override;
  [[nodiscard]] bool is_quiet() const override;
  [[nodiscard]] uint64_t packets_received() const override { return received_packets_.packets; }
  [[nodiscard]] bool expects_more() const override { return link_->expects_more(); }
  void settle(Time now, device::Acks acks) override;
  [[nodiscard]] bool owes_acks() const override;
  [[nodiscard]] bool has_completions() const override { return !to_publish_.empty(); }
  [[nodiscard]] bool is_stalled() const override { return stalled_; }
  [[nodiscard]] bool has_work(Time now) override;
  [[nodiscard]] Time next_deadline() override;
  void on_ready(Time now, bool readable) override;
  [[nodiscard]] Time note_troubles(Time) override { return kNever; }
  void tell_troubles() override {}
  [[nodiscard]] bool prepare_sleep() override;
  void woke(link::ReadyFds ready) override {
    if (ready[kBell]) link_->woke();
  }
  void set_polling(bool polling) override;
  // ProgressWorld
  [[nodiscard]] Time clock() const override { return scheduler_.now(); }
  Ready sleep_helper(Time until, Wakes wakes) override;
  void wake_helper() override;
  [[nodiscard]] Woken sleep_receiving(device::CompletionChannel& channel, bool may_sleep) override;
  [[nodiscard]] int sleep_on(device::CompletionChannel& channel,
                             device::CompletionQueue*& cq) override;
  // CompletionOwner
  void completion_staged(device::CompletionQueue& cq) override { to_publish_.push_back(&cq); }
  void completion_overflow(device::CompletionQueue&) override { report_("a queue overflowed"); }
  void completion_failed(Qpn) override {}
  // Intake
  void on_ring_packet(const link::RingPacket& packet, Time now) override;
  [[nodiscard]] uint32_t on_ring_run(std::span<const uint8_t>, std::span<const uint8_t>, uint32_t,
                                     const wire::Gid&, const wire::Gid&, bool, Time) override {
    return 0;
  }
  void count_bad_record() override { report_("a record in a ring is bad"); }

  // A thread is about to sleep until packets arrive; until its channel has an event.
  void check_sleep();
  // The helper is about to sleep, and leaves the packets to others.
  void check_control_sleep() const;
  void check_sleep_on(const device::CompletionChannel& channel);
  // A thread that receives is about to sleep: what it owes, somebody sends soon.
  void check_owed();
  // Which descriptors are readable.
  [[nodiscard]] link::ReadyFds readable_packets() const;
  // Members came or went.
  void look_at_members();
  void lose(Peer& peer);
  [[nodiscard]] bool is_for_this_one(const Header& header, Peer& peer);
  [[nodiscard]] Qpn next_qpn() { return Qpn(++qpns_made_); }
  // For received_, or the spare.
  [[nodiscard]] device::CompletionQueue& queue_for(uint64_t sequence);
  [[nodiscard]] bool send_data(uint8_t slot, Peer& peer);
  void send_more();
  void send_acks();
  [[nodiscard]] bool send(uint8_t slot, Peer& peer, Header header, uint32_t bytes);
  [[nodiscard]] bool send_datagram(uint8_t slot, Header header);
  [[nodiscard]] size_t receive_datagrams(Time now);
  void take(const Header& header);
  [[nodiscard]] bool has_more() const;
  void unlock_after_fork() VERBENA_NO_THREAD_SAFETY;
  [[nodiscard]] bool room_again() { return link_->room_again() || ledger_.room_again(); }

  Scheduler& scheduler_;
  Host& host_;
  const uint8_t slot_;
  const uint32_t id_;
  Report report_;
  UniqueFd wake_;
  link::Membership membership_;
  link::TransmitCounters sent_packets_;
  link::ReceiveCounters received_packets_;
  std::unique_ptr<link::SharedLink> link_;
  link::CreditLedger ledger_;
  uint32_t incarnation_ = 0;
  uint32_t seen_generation_ = 0;
  std::array<Peer, kPeers> peers_;
  bool stalled_ = false;
  bool may_have_left_ = false;
  Time ack_again_ = kNever;  // no room for an acknowledgement
  uint64_t in_memory_ = 0;
  uint32_t arming_ = 0;        // threads that are at it
  uint32_t waiting_ = 0;       // or in wait()
  uint32_t on_their_own_ = 0;  // that sleep on a descriptor
  bool told_ = false;          // since a queue was armed somebody polled, or has an event
  Time left_ = 0;              // when a thread last left wait()
  Time helper_until_ = kNever;
  bool helper_ended_ = false;
  bool abandoned_ = false;  // in a forked child
  Time last_traffic_ = 0;
  uint32_t qpns_made_ = 0;
  // Queue pairs that are gone, and the how-manieth each was.
  std::unordered_map<uint32_t, uint64_t> destroyed_;
  std::vector<device::CompletionQueue*> to_publish_;
  device::CompletionChannel sent_channel_;
  device::CompletionChannel received_channel_;
  device::CompletionQueue sent_;
  device::CompletionQueue received_;
  Guarded<device::CompletionQueue> spare_;
  device::EngineLock lock_;
  device::Progress progress_;
};

}  // namespace verbena::progress_sim
