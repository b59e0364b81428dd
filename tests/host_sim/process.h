// SPDX-License-Identifier: Apache-2.0
// One simulated process: the device's own Engine with all that is below it, and a program with two
// threads on top. One connects to the other processes and writes, sends and reads; the other
// receives. Both poll, sleep on channels, or do neither for a while, as the seed says.
//
// A message is a WRITE into a place of the peer's memory and a SEND that says what was written; the
// receiver looks whether it is there. READs fetch what never changes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/unique_fd.h"
#include "device/engine.h"
#include "host_sim/connection.h"
#include "progress_sim/scheduler.h"

namespace verbena::host_sim {

using progress_sim::Scheduler;

// What a process knows of the others, and whom it tells what should not be.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  [[nodiscard]] virtual std::deque<Connection>& connections() = 0;
  // It was neither killed nor does it leave: what is posted to it succeeds.
  [[nodiscard]] virtual bool stays(uint32_t process) = 0;
  // The one that is stopped; 0: none.
  [[nodiscard]] virtual uint32_t stopped() const = 0;
  virtual void violation(const std::string& what) = 0;
};

struct ProcessParts {
  Scheduler& scheduler;
  Surroundings& others;
  std::string group;
};

class Process final : private device::EventRouter {
 public:
  Process(const ProcessParts& parts, uint32_t id);
  ~Process() override;

  // --- its threads
  void run();
  void receive();

  [[nodiscard]] uint32_t id() const { return id_; }
  [[nodiscard]] bool is_open() const { return engine_ != nullptr; }
  // All that it wanted to post is done.
  [[nodiscard]] bool is_done() const { return done_; }
  [[nodiscard]] bool is_leaving() const { return leaving_; }
  [[nodiscard]] bool has_left() const { return left_; }
  // Its threads end as soon as they can.
  void ask_to_leave();
  [[nodiscard]] uint64_t messages() const { return messages_; }
  [[nodiscard]] uint64_t reads() const { return reads_; }
  [[nodiscard]] uint64_t failed() const { return failed_; }
  [[nodiscard]] uint64_t helper_wakeups() const;
  [[nodiscard]] uint64_t probes() const;
  [[nodiscard]] int64_t credits_out() const;
  // How long something posted to one that is not stopped has waited, at most, since that was.
  [[nodiscard]] Duration waits_beside(uint32_t stopped, Time since) const;
  // Messages that are complete, but for those to it.
  [[nodiscard]] uint64_t sent_beside(uint32_t stopped) const;
  [[nodiscard]] std::string describe() const;
  // It was killed: the end of an object whose threads stand still.
  void bury();

 private:
  static constexpr uint32_t kSlots = 16;
  static constexpr uint32_t kSlotBytes = 12'000;
  static constexpr uint32_t kBulkBytes = 64'000;
  static constexpr uint32_t kReceives = 8;
  static constexpr uint32_t kUnderWay = 4;  // messages of a connection
  // Of a connection: what is received, what the peer writes, what is sent, what was read. Bulk is
  // the same bytes each time, more of them under way than a ring or a socket holds.
  struct Area {
    std::array<std::array<uint64_t, 2>, kReceives> received;  // sequence, length
    std::array<std::array<uint64_t, 2>, kSlots> sending;
    std::array<uint8_t, kSlots * kSlotBytes> written;
    std::array<uint8_t, kSlots * kSlotBytes> to_write;
    std::array<uint8_t, kSlotBytes> to_read;
    std::array<uint8_t, kSlotBytes> read;
    std::array<uint8_t, kBulkBytes> bulk_to_write;
    std::array<uint8_t, kBulkBytes> bulk_written;
  };
  struct Peer {
    Connection* connection = nullptr;
    std::unique_ptr<Area> area;
    Qpn qpn{};
    transport::QueuePair* queue = nullptr;
    LKey lkey{};
    bool connected = false;
    bool broken = false;
    uint64_t posted = 0;  // messages
    uint64_t sent = 0;    // and those that are complete
    uint64_t received = 0;
    bool reading = false;
    uint32_t read_bytes = 0;
    Time posted_at = 0;  // the oldest that is not complete
  };
  struct Posted {
    size_t peer = 0;
    bool is_read = false;
  };

  // EventRouter
  void on_qp_event(transport::Event, Qpn) override {}
  void on_srq_event(transport::Event, SrqId) override {}
  void on_cq_overflow(device::CompletionQueue&) override { violation("a queue overflowed"); }
  void on_addresses_changed() override {}
  [[nodiscard]] device::CompletionMarks completions_of(Qpn) override { return {}; }
  [[nodiscard]] bool were_polled(Qpn, const device::CompletionMarks&) override { return true; }
  [[nodiscard]] bool has_unread_event(Qpn) override { return false; }
  [[nodiscard]] transport::Path path_between(const wire::Gid& source,
                                             const wire::Gid& destination) override {
    return {.source = source, .destination = destination};
  }

  [[nodiscard]] bool open();
  void close();
  void look_for_peers();
  [[nodiscard]] std::unique_ptr<Peer> make_peer(Connection& connection);
  void connect(Peer& peer);
  [[nodiscard]] bool post_receive(Peer& peer, uint64_t number);
  // False: there is nobody to talk to.
  bool post_some();
  // While one is stopped: now and then, to the others.
  void post_beside();
  void post_message(Peer& peer);
  void post_bulk(Peer& peer);
  void post_read(Peer& peer);
  [[nodiscard]] bool has_posted() const;
  // Takes what the queue has.
  [[nodiscard]] uint32_t take(device::CompletionQueue& cq);
  void on_sent(const transport::Completion& completion);
  void on_received(const transport::Completion& completion);
  void on_failed(Peer& peer, const transport::Completion& completion);
  // Until something is there, or `until`.
  void poll_until(device::CompletionQueue& cq, Time until);
  void sleep_until_event(device::CompletionQueue& cq, device::CompletionChannel& channel,
                         bool by_engine);
  void violation(const std::string& what) const;
  [[nodiscard]] uint64_t draw(uint64_t bound) { return random_.below(bound); }

  ProcessParts parts_;
  const uint32_t id_;
  SeededRandom random_;
  UniqueFd nudge_;
  std::unique_ptr<device::Engine> engine_;
  PdId pd_{};
  device::CompletionChannel sent_channel_;
  device::CompletionChannel received_channel_;
  std::unique_ptr<device::CompletionQueue> sent_queue_;
  std::unique_ptr<device::CompletionQueue> received_queue_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unordered_map<uint32_t, size_t> peer_of_;  // by our queue pair's number
  uint32_t rounds_;
  uint32_t looks_;
  Time posted_beside_at_ = 0;
  bool done_ = false;
  bool leaving_ = false;
  bool receiver_ended_ = false;
  bool left_ = false;
  uint64_t messages_ = 0;
  uint64_t reads_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace verbena::host_sim
