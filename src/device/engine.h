// SPDX-License-Identifier: Apache-2.0
// The engine: one per process. It joins the transport to the host's link: endpoint, memory,
// connections, numbers, taps and notices. Who makes progress with them, and when, is Progress's to
// say (progress.h).
//
// One lock guards nearly all of it. A caller that posts or changes something works inside `Locked`,
// whose end sends what was produced, publishes completions and sees to the helper's alarm. What the
// engine is called for by those below it (EventSink, Arrivals, CompletionOwner, ProgressWork) is
// called with the lock held; they know of none, so that each such function says so itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/kernel_random.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/secret_order.h"
#include "base/time.h"
#include "cm/counters.h"
#include "cm/service.h"
#include "device/completion_channel.h"
#include "device/completion_queue.h"
#include "device/engine_lock.h"
#include "device/event_queue.h"
#include "device/gid_table.h"
#include "device/held_disconnects.h"
#include "device/helper_thread.h"
#include "device/kernel_world.h"
#include "device/notices.h"
#include "device/on_demand.h"
#include "device/peer_watch.h"
#include "device/progress.h"
#include "link/host_link.h"
#include "link/port_counters.h"
#include "memory/domain.h"
#include "transport/endpoint.h"

namespace verbena::device {

class Connections;

struct EngineOptions {
  link::MembershipOptions host;
  link::LinkKind link = link::LinkKind::kAuto;
  transport::EndpointLimits limits;
  transport::Tuning tuning;
  memory::Domain::Options memory;
  GidOptions gids;
  // Its content is shared with other hosts, whose packets are taken only with it; empty: none.
  std::string secret_file;
  uint64_t node_guid = 0;     // as peers know the device
  PeerWatchOptions watch;     // over idle connections
  std::string counters_file;  // gets a line of them at the end; empty: none
  bool quiet = false;         // nothing is said on the standard error
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

class Engine final : public transport::EventSink,
                     public link::Arrivals,
                     public CompletionOwner,
                     private DoorbellAnswerer,
                     private ProgressWork {
 public:
  // One without its helper: `router` is called by who calls in, and by nobody else yet.
  [[nodiscard]] static Result<std::unique_ptr<Engine>, link::MembershipError> make(
      const EngineOptions& options, EventRouter& router);
  // Starts the helper. Once, when the router may be called by it; the engine is of no use before.
  [[nodiscard]] Result<void, link::MembershipError> start_helper();
  ~Engine() override;

  // The right to touch what follows, for changes that give nothing to send and as a rule complete
  // nothing (a receive posted to a queue pair in error does).
  class VERBENA_SCOPED_CAPABILITY Quiet {
   public:
    explicit Quiet(Engine& engine) VERBENA_ACQUIRE(engine.lock_) : engine_(engine) {
      engine.lock_.lock();
      engine.quiet_until_ = 0;
      answered_ = engine.send_posted();
    }
    // The caller has the lock.
    Quiet(Engine& engine, std::adopt_lock_t) VERBENA_REQUIRES(engine.lock_) : engine_(engine) {
      engine.quiet_until_ = 0;
    }
    ~Quiet() VERBENA_RELEASE() {
      if (answered_ || !engine_.to_publish_.empty()) engine_.progress_.finish(Engine::clock());
      engine_.lock_.unlock();
    }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
    [[nodiscard]] transport::Endpoint& endpoint() const {
      engine_.lock_.assert_held();
      return *engine_.endpoint_;
    }
    [[nodiscard]] memory::Domain& memory() const {
      engine_.lock_.assert_held();
      return *engine_.memory_;
    }

   protected:
    Engine& engine_;
    bool answered_ = false;  // doorbells: what was posted is to leave
  };
  // The same for any change: its end sends and publishes what came of it.
  class VERBENA_SCOPED_CAPABILITY Locked : public Quiet {
   public:
    explicit Locked(Engine& engine) VERBENA_ACQUIRE(engine.lock_) : Quiet(engine) {}
    Locked(Engine& engine, std::adopt_lock_t adopt) VERBENA_REQUIRES(engine.lock_)
        : Quiet(engine, adopt) {
      (void)engine.send_posted();
    }
    ~Locked() VERBENA_RELEASE() {
      engine_.progress_.finish(now());
      answered_ = false;
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    // One time for all that is done: to read the clock costs as much as to copy a small message.
    [[nodiscard]] Time now() const {
      if (now_ == 0) now_ = Engine::clock();
      return now_;
    }

   private:
    mutable Time now_ = 0;
  };

  // Says that a queue pair was refused a path MTU, and what to do. Without the lock.
  void tell_refused_mtu(transport::Mtu wanted, transport::Mtu largest);

  // For annotations; taken by Quiet and Locked.
  [[nodiscard]] const EngineLock& lock() const VERBENA_RETURN_CAPABILITY(lock_) { return lock_; }

  // The slow part of making a queue pair; without the lock, for it touches nothing that changes.
  [[nodiscard]] Result<transport::QpQueues, transport::Error> make_queues(
      const transport::QpInit& init) const VERBENA_NO_THREAD_SAFETY {
    return endpoint_->make_queues(init);
  }

  // --- posting; without the lock (engine_posting.cc)
  struct Posted {
    size_t count = 0;
    std::optional<transport::Error> refused{};  // why the next was not posted
  };
  enum class Chain { kUpToRefused, kWhole };  // the whole chain, or nothing
  [[nodiscard]] Posted post_sends(transport::QueuePair& qp,
                                  std::span<const transport::SendRequest> requests, Chain chain);
  [[nodiscard]] Posted post_receives(transport::QueuePair& qp,
                                     std::span<const transport::RecvRequest> requests);
  [[nodiscard]] Posted post_receives(transport::SharedRecvQueue& srq,
                                     std::span<const transport::RecvRequest> requests);

  // See Progress.
  void poll() { progress_.poll(); }
  void still_polling() { progress_.still_polling(); }
  [[nodiscard]] int wait(CompletionChannel& channel, CompletionQueue*& cq) {
    return progress_.wait(channel, cq);
  }
  void armed() { progress_.armed(); }
  // The process exits: sends owed ACKs, and DREQs for all connections; writes the counters. Waits
  // for the lock no longer than `bound`.
  void shut_down(Duration bound);
  // A completion queue is destroyed.
  void forget(CompletionQueue& cq) VERBENA_REQUIRES(lock_) { std::erase(to_publish_, &cq); }

  [[nodiscard]] EventRouter& router() { return router_; }
  // The connection manager; takes the lock itself.
  [[nodiscard]] cm::Service& connections();
  // A datagram between the QP1s of two addresses; leaves at the end of the lock.
  void send_management(const wire::Gid& source, const wire::Gid& destination, uint32_t qkey,
                       std::span<const uint8_t> payload) VERBENA_REQUIRES(lock_);

  // Shows what was completed so far, ahead of the end of the batch.
  void publish_completions() VERBENA_REQUIRES(lock_);

  // A queue pair number that belongs to this process: 16 bits of it are random.
  [[nodiscard]] Qpn draw_qpn() VERBENA_REQUIRES(lock_);
  // A first packet sequence number that nobody can guess. Takes the lock.
  [[nodiscard]] wire::Psn draw_psn();
  // Without the lock: it never changes.
  [[nodiscard]] uint8_t slot() const VERBENA_NO_THREAD_SAFETY { return link_->slot(); }
  // Multicast: once more for each join. 0 or errno.
  [[nodiscard]] int join_group(const wire::Gid& group) VERBENA_REQUIRES(lock_) {
    return link_->join_group(group);
  }
  void leave_group(const wire::Gid& group) VERBENA_REQUIRES(lock_) { link_->leave_group(group); }
  void expect_from(const wire::Gid& peer) VERBENA_REQUIRES(lock_) { link_->expect_from(peer); }
  void expect_from_anybody() VERBENA_REQUIRES(lock_) { link_->expect_from_anybody(); }

  [[nodiscard]] ProgressCounters counters() const VERBENA_REQUIRES(lock_) {
    return progress_.counters();
  }
  [[nodiscard]] const link::Link& link() const VERBENA_REQUIRES(lock_) { return *link_; }
  [[nodiscard]] const transport::Counters& transport_counters() const VERBENA_REQUIRES(lock_) {
    return endpoint_->counters();
  }
  [[nodiscard]] const cm::Counters& manager_counters() const VERBENA_REQUIRES(lock_);
  // Without the lock: it never changes.
  [[nodiscard]] const std::string& this_host_only() const VERBENA_NO_THREAD_SAFETY {
    return link_->this_host_only();
  }
  // For tests, which look behind the link. Its port never changes; the rest of it with the lock.
  [[nodiscard]] const link::Membership& host() const VERBENA_NO_THREAD_SAFETY {
    return link_->host();
  }
  // Captures and faults; nullptr: none. They outlive the engine, or are taken out first.
  void set_taps(link::TransmitTap* transmit, link::ReceiveFilter* receive);

  // Around fork. In the child the parent's sockets and thread are not ours.
  void before_fork() VERBENA_ACQUIRE(lock_);
  void after_fork_in_parent() VERBENA_RELEASE(lock_);
  void abandon_in_child() VERBENA_RELEASE(lock_);

  [[nodiscard]] static Time clock() { return link::monotonic_now(); }

 private:
  explicit Engine(EventRouter& router);

  // transport::EventSink
  void qp_event(transport::Event event, Qpn qpn) override;
  void srq_event(transport::Event event, SrqId srq) override { router_.on_srq_event(event, srq); }
  void large_packets_lost(const transport::LargePacketsLost& lost) override;
  // link::Arrivals
  void on_packet(const transport::InPacket& packet, Time now) override;
  [[nodiscard]] uint32_t on_joined(const link::Joined& joined, link::PacketCheck& check,
                                   Time now) override;
  [[nodiscard]] uint32_t on_run(const wire::Run& run, std::span<const uint8_t> payload,
                                const wire::Gid& source, const wire::Gid& destination,
                                bool ack_request, Time now) override;
  // CompletionOwner
  void completion_staged(CompletionQueue& cq) override {
    lock_.assert_held();
    to_publish_.push_back(&cq);
  }
  void completion_overflow(CompletionQueue& cq) override;
  void completion_failed(Qpn qpn) override {
    lock_.assert_held();
    if (qpn == silent_error_.qpn) silent_error_ = {};  // its program is told
  }

  // DoorbellAnswerer
  void answer_doorbells() override;
  void leave_doorbells() override;
  // Ahead of what a caller does who has the lock: he, too, may have posted without it. Whether
  // something was; progress_.finish() is due then.
  bool send_posted() VERBENA_REQUIRES(lock_) {
    const bool any = endpoint_->doorbells().any();
    if (any) [[unlikely]]
      endpoint_->answer_doorbells(clock());
    return any;
  }
  // The endpoint's part that needs no lock: it never changes, or any thread may touch it.
  [[nodiscard]] Posted append_sends(transport::QueuePair& qp,
                                    std::span<const transport::SendRequest> requests,
                                    Chain chain) VERBENA_NO_THREAD_SAFETY;
  [[nodiscard]] std::optional<Posted> post_sends_aside(
      transport::QueuePair& qp, std::span<const transport::SendRequest> requests,
      Chain chain) VERBENA_NO_THREAD_SAFETY;
  [[nodiscard]] std::optional<Posted> post_receives_aside(
      transport::QueuePair& qp,
      std::span<const transport::RecvRequest> requests) VERBENA_NO_THREAD_SAFETY;
  // Among those for which lock_ is rung next.
  void list(transport::QueuePair& qp) VERBENA_NO_THREAD_SAFETY;
  template <typename Append>
  [[nodiscard]] std::optional<Posted> aside(transport::Poster& poster, Append&& append);

  // ProgressWork
  [[nodiscard]] size_t receive(link::Look look, Time now) override {
    lock_.assert_held();
    return link_->receive(look, now);
  }
  [[nodiscard]] size_t receive_ready(link::ReadyFds ready, Time now) override {
    lock_.assert_held();
    return link_->receive_ready(ready, now);
  }
  [[nodiscard]] bool may_have_left() const override {
    lock_.assert_held();
    return link_->may_have_left();
  }
  [[nodiscard]] Looked look(Time now) override;
  [[nodiscard]] bool is_quiet() const override {
    lock_.assert_held();
    return !stalled_ && !endpoint_->owes_acks() && link_->is_quiet();
  }
  [[nodiscard]] uint64_t packets_received() const override {
    lock_.assert_held();
    return link_->receive_counters().packets;
  }
  [[nodiscard]] bool expects_more() const override {
    lock_.assert_held();
    return link_->expects_more();
  }
  void settle(Time now, Acks acks) override;
  [[nodiscard]] bool owes_acks() const override {
    lock_.assert_held();
    return endpoint_->owes_acks();
  }
  [[nodiscard]] bool has_completions() const override {
    lock_.assert_held();
    return !to_publish_.empty();
  }
  [[nodiscard]] bool is_stalled() const override {
    lock_.assert_held();
    return stalled_;
  }
  [[nodiscard]] bool has_work(Time now) override;
  [[nodiscard]] Time next_deadline() override;
  void on_ready(Time now, bool readable) override;
  [[nodiscard]] Time note_troubles(Time now) override;
  void tell_troubles() override;
  [[nodiscard]] bool prepare_sleep() override {
    lock_.assert_held();
    return link_->prepare_sleep();
  }
  void woke(link::ReadyFds ready) override {
    lock_.assert_held();
    link_->woke(ready);
  }
  void set_polling(bool polling) override {
    lock_.assert_held();
    link_->set_polling(polling);
  }

  // Of these and the link's timers.
  [[nodiscard]] Time earliest(Time endpoint_due, Time connections_due) const
      VERBENA_REQUIRES(lock_);
  void report_counters() VERBENA_REQUIRES(lock_);
  // To the table that all members of the host share.
  void show_traffic() VERBENA_REQUIRES(lock_);
  void show_trouble(Time now) VERBENA_REQUIRES(lock_);
  void note_too_large() VERBENA_REQUIRES(lock_);
  // Packets that will never go or come, which note_troubles() is to say.
  void say_dropped(uint32_t packets) VERBENA_REQUIRES(lock_);
  [[nodiscard]] bool has_unsaid_losses() const VERBENA_REQUIRES(lock_);

  EventRouter& router_;
  const std::unique_ptr<EngineLock, EngineLock::GiveBack> lock_place_ = EngineLock::take();
  EngineLock& lock_ = *lock_place_;
  KernelWorld world_;
  Progress progress_{lock_, world_, *this};
  KernelRandom random_ VERBENA_GUARDED_BY(lock_);
  std::unique_ptr<link::HostLink> link_ VERBENA_PT_GUARDED_BY(lock_);
  std::optional<link::OwnPortCounters> port_counters_ VERBENA_GUARDED_BY(lock_);
  Time trouble_due_ VERBENA_GUARDED_BY(lock_) = 0;  // when it is shown again
  RepeatAccessor repeats_;
  std::unique_ptr<memory::Domain> memory_ VERBENA_PT_GUARDED_BY(lock_);
  std::unique_ptr<transport::Endpoint> endpoint_ VERBENA_PT_GUARDED_BY(lock_);
  std::unique_ptr<Connections> connections_;
  std::vector<CompletionQueue*> to_publish_ VERBENA_GUARDED_BY(lock_);
  std::optional<SecretOrder<16>> qpns_ VERBENA_GUARDED_BY(lock_);  // of this member's slot
  wire::Psn management_psn_ VERBENA_GUARDED_BY(lock_);
  std::string counters_file_ VERBENA_GUARDED_BY(lock_);
  Notices notices_;  // says itself what it needs the lock for
  // A queue pair that went to the error state with nothing posted, so that no completion says so.
  // One is watched at a time.
  struct SilentError {
    Qpn qpn;
    bool access = false;  // the peer's request was not allowed; or else it made no sense
    Time look_at = kNever;
  };
  SilentError silent_error_ VERBENA_GUARDED_BY(lock_);
  // The last settle() had something to send, and no receiver had room.
  bool stalled_ VERBENA_GUARDED_BY(lock_) = false;
  // Before then has_work() need not look: nothing is due, as of the last settle(). 0: not known,
  // for something was changed since.
  Time quiet_until_ VERBENA_GUARDED_BY(lock_) = 0;
  // Nobody posts without the lock while the process forks, or the child would find a queue half
  // changed, and the mutex of its poster held for ever. Pairs with EngineLock::Guest.
  std::atomic<bool> forking_{false};
  uint32_t seen_address_changes_ VERBENA_GUARDED_BY(lock_) = 0;
  HelperThread helper_;
};

}  // namespace verbena::device
