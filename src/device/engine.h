// SPDX-License-Identifier: Apache-2.0
// The engine: one per process. It joins the transport to the host's link and makes progress for
// everyone: a thread that polls a completion queue receives and answers packets itself; when none
// does, a helper thread sleeps in the kernel until there is something to do.
//
// Everything below `lock()` belongs to whoever holds the lock. A caller that posts or changes
// something works inside `Locked`, whose end sends what was produced, publishes completions and
// sees to the helper's alarm.
//
// Who receives: a poller, while it has the lease (poll_lease.h). From the moment a completion queue
// is armed until its event nobody takes it: its program is about to sleep.
//
// A thread that sleeps on a completion channel through wait() receives as well: it sleeps on the
// sockets and on its channel together, so that a packet wakes the thread that wants it and not the
// helper first. The helper looks after the timers and after a waiter that does not come back.
//
// ACKs: of bulk, a few batches that are there already share them. When a batch brought completions,
// its ACKs wait for the program's answer and leave behind it in one system call. They go alone when
// the program polls and there is nothing more, after a few messages, when the program calls in for
// something else, or at the helper's next look, at most kTick later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/kernel_random.h"
#include "base/result.h"
#include "base/time.h"
#include "device/completion_channel.h"
#include "device/completion_queue.h"
#include "device/connections.h"
#include "device/epoll_sleep.h"
#include "device/event_queue.h"
#include "device/gid_table.h"
#include "device/held_disconnects.h"
#include "device/helper_alarm.h"
#include "device/notices.h"
#include "device/on_demand.h"
#include "device/poll_lease.h"
#include "link/host_link.h"
#include "link/port_counters.h"
#include "memory/domain.h"
#include "transport/endpoint.h"

namespace verbena::device {

struct EngineOptions {
  link::MembershipOptions host;
  link::LinkKind link = link::LinkKind::kAuto;
  transport::EndpointLimits limits;
  transport::Tuning tuning;
  memory::Domain::Options memory;
  GidOptions gids;
  uint64_t node_guid = 0;     // as peers know the device
  PeerWatchOptions watch;     // over idle connections
  std::string counters_file;  // gets a line of them at the end; empty: none
  bool quiet = false;         // nothing is said on the standard error
};

struct EngineCounters {
  uint64_t helper_wakeups = 0;
  uint64_t poller_batches = 0;
  uint64_t helper_batches = 0;
};

// Turns events of numbered queue pairs and SRQs into those of the program's objects.
class EventRouter {
 public:
  virtual ~EventRouter() = default;
  virtual void on_qp_event(transport::Event event, Qpn qpn) = 0;
  virtual void on_srq_event(transport::Event event, SrqId srq) = 0;
  virtual void on_cq_overflow(CompletionQueue& cq) = 0;
  // The host's addresses or interfaces may have changed.
  virtual void on_addresses_changed() = 0;
  // What a queue pair's completion queues hold, and whether it was polled. Under the engine's lock.
  [[nodiscard]] virtual CompletionMarks completions_of(Qpn qpn) = 0;
  [[nodiscard]] virtual bool were_polled(Qpn qpn, const CompletionMarks& marks) = 0;
  // Whether an event about it waits to be read. Under the engine's lock.
  [[nodiscard]] virtual bool has_unread_event(Qpn qpn) = 0;
  // How packets of the device's own leave. Under the engine's lock.
  [[nodiscard]] virtual transport::Path path_between(const wire::Gid& source,
                                                     const wire::Gid& destination) = 0;
};

class Engine final : public transport::EventSink, public link::Arrivals, public CompletionOwner {
 public:
  // One without its helper: `router` is called by who calls in, and by nobody else yet.
  [[nodiscard]] static Result<std::unique_ptr<Engine>, link::MembershipError> make(
      const EngineOptions& options, EventRouter& router);
  // Starts the helper. Once, when the router may be called by it; the engine is of no use before.
  [[nodiscard]] Result<void, link::MembershipError> start_helper();
  ~Engine() override;

  // The right to touch what follows, for changes that give nothing to send and as a rule complete
  // nothing (a receive posted to a queue pair in error does).
  class Quiet {
   public:
    explicit Quiet(Engine& engine) : engine_(engine) { engine.lock(); }
    ~Quiet() {
      if (!engine_.to_publish_.empty()) engine_.finish();
      engine_.mutex_.unlock();
    }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
    [[nodiscard]] transport::Endpoint& endpoint() const { return *engine_.endpoint_; }
    [[nodiscard]] memory::Domain& memory() const { return *engine_.memory_; }

   protected:
    Engine& engine_;
  };
  // The same for any change: its end sends and publishes what came of it.
  class Locked : public Quiet {
   public:
    explicit Locked(Engine& engine) : Quiet(engine) {}
    ~Locked() { engine_.finish(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    [[nodiscard]] Time now() const { return Engine::clock(); }
  };

  // The slow part of making a queue pair; without the lock.
  [[nodiscard]] Result<transport::QpQueues, transport::Error> make_queues(
      const transport::QpInit& init) const {
    return endpoint_->make_queues(init);
  }

  // Receives once on behalf of a poller whose queue is empty; never waits for the lock.
  void poll();
  // A poller found completions without it: it will be back.
  void still_polling();
  // Waits for an event of the channel, receiving meanwhile. 0, or an errno: EAGAIN, EINTR.
  [[nodiscard]] int wait(CompletionChannel& channel, CompletionQueue*& cq);
  // A completion queue was armed: its program is about to sleep and needs the helper.
  void armed();
  // The process exits: sends owed ACKs, and DREQs for all connections; writes the counters. Waits
  // for the lock no longer than `bound`.
  void shut_down(Duration bound);
  // A completion queue is destroyed. Under the lock.
  void forget(CompletionQueue& cq) { std::erase(to_publish_, &cq); }

  [[nodiscard]] EventRouter& router() { return router_; }
  // The connection manager.
  [[nodiscard]] Connections& connections() { return *connections_; }
  // A datagram between the QP1s of two addresses. Under the lock; leaves at its end.
  void send_management(const wire::Gid& source, const wire::Gid& destination, uint32_t qkey,
                       std::span<const uint8_t> payload);

  // Shows what was completed so far, ahead of the end of the batch. Under the lock.
  void publish_completions();

  // A queue pair number that belongs to this process: its slot and 16 random bits.
  [[nodiscard]] Qpn draw_qpn();
  // A first packet sequence number that nobody can guess. Takes the lock.
  [[nodiscard]] wire::Psn draw_psn();
  [[nodiscard]] uint8_t slot() const { return link_->slot(); }
  // Multicast: once more for each join. Under the lock; 0 or errno.
  [[nodiscard]] int join_group(const wire::Gid& group) { return link_->join_group(group); }
  void leave_group(const wire::Gid& group) { link_->leave_group(group); }
  void note_family(bool ipv4) { link_->note_family(ipv4); }

  [[nodiscard]] const EngineCounters& counters() const { return counters_; }
  [[nodiscard]] const link::Link& link() const { return *link_; }
  [[nodiscard]] const transport::Counters& transport_counters() const {
    return endpoint_->counters();
  }
  [[nodiscard]] const cm::Counters& manager_counters() const {
    return connections_->manager_counters();
  }
  [[nodiscard]] const link::Membership& host() const { return link_->host(); }
  // Captures and faults; nullptr: none. They outlive the engine, or are taken out first.
  void set_taps(link::TransmitTap* transmit, link::ReceiveFilter* receive);

  // Around fork. In the child the parent's sockets and thread are not ours.
  void before_fork() {
    lock_first();
    link_->before_fork();
  }
  void after_fork_in_parent() {
    link_->after_fork_in_parent();
    mutex_.unlock();
  }
  void abandon_in_child();

  [[nodiscard]] static Time clock();

 private:
  explicit Engine(EventRouter& router);

  // transport::EventSink, under the lock
  void qp_event(transport::Event event, Qpn qpn) override;
  void srq_event(transport::Event event, SrqId srq) override { router_.on_srq_event(event, srq); }
  // link::Arrivals, under the lock
  void on_packet(const transport::InPacket& packet, Time now) override;
  [[nodiscard]] uint32_t on_joined(const link::Joined& joined, link::PacketCheck& check,
                                   Time now) override;
  [[nodiscard]] uint32_t on_run(const wire::Run& run, std::span<const uint8_t> payload,
                                const wire::Gid& source, const wire::Gid& destination,
                                bool ack_request, Time now) override;
  // CompletionOwner, under the lock
  void completion_staged(CompletionQueue& cq) override { to_publish_.push_back(&cq); }
  void completion_overflow(CompletionQueue& cq) override;
  void completion_failed(Qpn qpn) override {
    if (qpn == silent_error_.qpn) silent_error_ = {};  // its program is told
  }

  [[nodiscard]] Time next_deadline() const {
    return std::min({endpoint_->next_deadline(), connections_->next_timer(), link_->next_timer()});
  }

  enum class Acks : uint8_t { kSend, kHold };
  // After a batch that completed nothing.
  [[nodiscard]] Acks acks_of_batch();
  // Whether a timer is due, or there is more to send and room for it.
  [[nodiscard]] bool has_work(Time now);
  // Timers that are due, owed ACKs, replies; then the link is flushed and completions shown.
  void settle(Time now, Acks acks = Acks::kSend);
  // settle() after packets were received for a thread of the program's; `held`: while ACKs for
  // what it had before were held.
  void settle_received(Time now, bool held);
  void finish();
  void report_counters();
  // What the program should hear of and may not have: looks, and says it.
  void note_troubles(Time now);
  void write_notices();
  // To the table that all members of the host share.
  void show_traffic();
  void show_trouble(Time now);
  void wake_helper();
  // The helper looks by then, or somebody else does first.
  void have_helper_by(Time deadline);

  // Spins a little before it sleeps: the lock is held for microseconds.
  void lock();
  // For whoever must not be kept waiting by a program that does nothing but call in.
  void lock_first() {
    ++lock_wanted_;
    mutex_.lock();
    --lock_wanted_;
  }
  // A poller receives.
  [[nodiscard]] bool leased(Time now) const {
    return !sleeper_.load(std::memory_order_relaxed) && lease_.held(now);
  }
  [[nodiscard]] int receive_for(CompletionChannel& channel, CompletionQueue*& cq);

  // While there is traffic the helper looks up this often, so that posting need not wake it for
  // every timer.
  [[nodiscard]] Duration tick() const { return 2 * lease_.full(); }
  void helper_main();
  [[nodiscard]] Time helper_pass(Time now);
  void helper_spin();
  void helper_sleep(Time until, bool watch_sockets);

  EventRouter& router_;
  KernelRandom random_;
  std::mutex mutex_;
  // Held by the one of those who call in that waits for the lock; the others wait for this. (A
  // forked child has one thread, which never waits.)
  std::mutex queue_;
  std::unique_ptr<link::HostLink> link_;
  std::optional<link::OwnPortCounters> port_counters_;
  Time trouble_due_ = 0;  // when it is shown again
  RepeatAccessor repeats_;
  std::unique_ptr<memory::Domain> memory_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<Connections> connections_;
  std::vector<CompletionQueue*> to_publish_;
  EngineCounters counters_;
  uint32_t poll_round_ = 0;
  uint32_t last_qpn_ = 0;
  uint32_t qpn_step_ = 0;  // 0: not drawn yet
  wire::Psn management_psn_;
  std::string counters_file_;
  Notices notices_;
  // A queue pair that went to the error state with nothing posted, so that no completion says so.
  // One is watched at a time.
  struct SilentError {
    Qpn qpn;
    bool access = false;  // the peer's request was not allowed; or else it made no sense
    Time look_at = kNever;
  };
  SilentError silent_error_;
  uint32_t batches_unacked_ = 0;  // that put their ACKs off for the next,
  Time acks_held_since_ = 0;      // of a program that polls, since then

  // Between pollers and the helper; relaxed: hints that the next pass corrects.
  PollLease lease_;
  std::atomic<bool> sleeper_{false};  // a queue was armed since the last completion was published
  HelperAlarm alarm_;                 // and the thread in wait() that receives
  std::atomic<uint32_t> bystanders_{0};  // other threads in wait()
  std::atomic<bool> helper_watching_{false};
  std::atomic<uint32_t> lock_wanted_{0};  // by the helper, or to fork: others give way
  std::atomic<bool> stopping_{false};
  Time last_activity_ = 0;
  Duration stall_wait_ = 0;  // the helper's pause while a receiver has no room
  bool stalled_ = false;     // the last settle() had something to send, and no receiver had room
  bool polling_ = false;     // as the host was told
  // Bulk comes in so quickly that sleeping between two batches costs more than it saves.
  bool bulk_ = false;
  uint32_t seen_address_changes_ = 0;

  UniqueFd wake_;           // eventfd
  UniqueFd epoll_all_;      // wake, the link's: control and what it receives from
  UniqueFd epoll_control_;  // wake, the link's control
  EpollSleep helper_epoll_;
  std::thread helper_;
};

}  // namespace verbena::device
