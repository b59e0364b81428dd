// SPDX-License-Identifier: Apache-2.0
// The engine: one per process. It joins the transport to the host's link: endpoint, memory,
// connections, numbers, taps and notices. Who makes progress with them, and when, is Progress's to
// say (progress.h).
//
// Everything below `lock()` belongs to whoever holds the lock. A caller that posts or changes
// something works inside `Locked`, whose end sends what was produced, publishes completions and
// sees to the helper's alarm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/kernel_random.h"
#include "base/result.h"
#include "base/time.h"
#include "device/completion_channel.h"
#include "device/completion_queue.h"
#include "device/connections.h"
#include "device/engine_lock.h"
#include "device/event_queue.h"
#include "device/gid_table.h"
#include "device/held_disconnects.h"
#include "device/helper_thread.h"
#include "device/kernel_world.h"
#include "device/notices.h"
#include "device/on_demand.h"
#include "device/progress.h"
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
  class Quiet {
   public:
    explicit Quiet(Engine& engine) : engine_(engine) { engine.lock_.lock(); }
    ~Quiet() {
      if (!engine_.to_publish_.empty()) engine_.progress_.finish();
      engine_.lock_.unlock();
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
    ~Locked() { engine_.progress_.finish(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    [[nodiscard]] Time now() const { return Engine::clock(); }
  };

  // The slow part of making a queue pair; without the lock.
  [[nodiscard]] Result<transport::QpQueues, transport::Error> make_queues(
      const transport::QpInit& init) const {
    return endpoint_->make_queues(init);
  }

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

  [[nodiscard]] const ProgressCounters& counters() const { return progress_.counters(); }
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
    lock_.lock_first();
    link_->before_fork();
  }
  void after_fork_in_parent() {
    link_->after_fork_in_parent();
    lock_.unlock();
  }
  void abandon_in_child();

  [[nodiscard]] static Time clock() { return link::monotonic_now(); }

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

  // ProgressWork
  [[nodiscard]] size_t receive(link::Look look, Time now) override {
    return link_->receive(look, now);
  }
  [[nodiscard]] Looked look(Time now) override;
  [[nodiscard]] uint64_t packets_received() const override {
    return link_->receive_counters().packets;
  }
  [[nodiscard]] bool expects_more() const override { return link_->expects_more(); }
  void settle(Time now, Acks acks) override;
  [[nodiscard]] bool owes_acks() const override { return endpoint_->owes_acks(); }
  [[nodiscard]] bool has_completions() const override { return !to_publish_.empty(); }
  [[nodiscard]] bool is_stalled() const override { return stalled_; }
  [[nodiscard]] bool has_work(Time now) override;
  [[nodiscard]] Time next_deadline() const override {
    return std::min({endpoint_->next_deadline(), connections_->next_timer(), link_->next_timer()});
  }
  void on_ready(Time now) override;
  [[nodiscard]] Time note_troubles(Time now) override;
  void tell_troubles() override;
  [[nodiscard]] bool prepare_sleep() override { return link_->prepare_sleep(); }
  void woke() override { link_->woke(); }
  void set_polling(bool polling) override { link_->set_polling(polling); }

  void report_counters();
  // To the table that all members of the host share.
  void show_traffic();
  void show_trouble(Time now);

  EventRouter& router_;
  KernelRandom random_;
  EngineLock lock_;
  KernelWorld world_;
  Progress progress_{lock_, world_, *this};
  std::unique_ptr<link::HostLink> link_;
  std::optional<link::OwnPortCounters> port_counters_;
  Time trouble_due_ = 0;  // when it is shown again
  RepeatAccessor repeats_;
  std::unique_ptr<memory::Domain> memory_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<Connections> connections_;
  std::vector<CompletionQueue*> to_publish_;
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
  bool stalled_ = false;  // the last settle() had something to send, and no receiver had room
  uint32_t seen_address_changes_ = 0;
  HelperThread helper_;
};

}  // namespace verbena::device
