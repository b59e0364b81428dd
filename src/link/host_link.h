// SPDX-License-Identifier: Apache-2.0
// The link of a process as it runs on a host: its membership among the processes there, its UDP
// sockets, and rings in shared memory towards those of the host that read them. Which of the two
// ways a packet takes is decided here, by whom it is for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "link/intake.h"
#include "link/link.h"
#include "link/link_kind.h"
#include "link/membership.h"
#include "link/numbers.h"
#include "link/shared_link.h"
#include "link/udp_link.h"

namespace verbena::link {

struct HostLinkOptions {
  MembershipOptions host;
  LinkKind kind = LinkKind::kAuto;
  std::optional<wire::TagKey> key{};  // shared with other hosts
};

class HostLink final : public Link {
 public:
  [[nodiscard]] static Result<std::unique_ptr<HostLink>, MembershipError> join(
      const HostLinkOptions& options, RandomSource& random, Arrivals& arrivals);

  // transport::PacketSink
  void send(const transport::OutPacket& packet) override;
  [[nodiscard]] bool has_room() const override { return true; }
  [[nodiscard]] bool has_room_towards(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] uint32_t room_for(const transport::Path& path, Qpn qpn, uint32_t packet_bytes,
                                  uint32_t wanted) const override;
  void send_run(const transport::OutRun& run) override;
  void cut() override { udp_.out().flush(); }
  [[nodiscard]] bool paces(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] bool is_unread(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] std::span<uint8_t> staging() override { return udp_.out().staging(); }

  // Link
  void show() override {
    if (shared_ != nullptr) shared_->show();
  }
  void flush() override;
  [[nodiscard]] bool room_again() override;
  void finish() override;
  void send_management(const transport::OutPacket& packet) override;
  [[nodiscard]] size_t receive(Look look, Time now) override;
  [[nodiscard]] size_t receive_ready(ReadyFds ready, Time now) override;
  [[nodiscard]] bool may_have_left() const override { return may_have_left_; }
  [[nodiscard]] bool is_quiet() const override;
  [[nodiscard]] bool expects_more() const override { return expects_more_; }
  void expect_from(const wire::Gid& peer) override { udp_.note_family(peer.is_ipv4()); }
  void expect_from_anybody() override {
    udp_.note_family(true);
    udp_.note_family(false);
  }
  [[nodiscard]] std::span<const int> receive_fds() const override {
    return {receive_fds_.data(), receive_fd_count_};
  }
  [[nodiscard]] bool prepare_sleep() override;
  void woke(ReadyFds ready) override;
  [[nodiscard]] int control_fd() const override { return host_->fd(); }
  void on_ready(Time now, bool readable) override;
  void set_polling(bool polling) override { host_->set_polling(polling); }
  [[nodiscard]] Time next_timer() const override;
  void on_timer(Time now) override;
  [[nodiscard]] uint8_t slot() const override { return host_->slot(); }
  [[nodiscard]] Qpn first_qpn() const override { return first_qpn_of(host_->slot()); }
  [[nodiscard]] uint16_t port() const override { return host_->port(); }
  [[nodiscard]] const std::string& this_host_only() const override {
    return host_->this_host_only();
  }
  [[nodiscard]] uint32_t address_changes() const override { return host_->address_changes(); }
  [[nodiscard]] uint32_t incarnation_of(const wire::Gid& address, Qpn qpn) override {
    return host_->incarnation_of(address, qpn);
  }
  [[nodiscard]] int add_port(const Port& port, Ports::Kind kind) override {
    return host_->add_port(port, kind);
  }
  void remove_port(const Port& port, Ports::Kind kind) override { host_->remove_port(port, kind); }
  [[nodiscard]] int join_group(const wire::Gid& group) override { return host_->join_group(group); }
  void leave_group(const wire::Gid& group) override { host_->leave_group(group); }
  [[nodiscard]] uint32_t receive_room() const override { return host_->receive_room(); }
  [[nodiscard]] uint32_t receive_buffer() const override { return host_->receive_buffer(); }
  [[nodiscard]] uint32_t receive_buffer_wanted() const override {
    return host_->receive_buffer_wanted();
  }
  [[nodiscard]] const std::string& name_held() const override { return host_->name_held(); }
  [[nodiscard]] MemberCounters& shown_counters() override { return host_->shown_counters(); }
  void set_taps(TransmitTap* transmit, ReceiveFilter* receive) override;
  [[nodiscard]] const TransmitCounters& transmit_counters() const override {
    return udp_.out().counters();
  }
  [[nodiscard]] const ReceiveCounters& receive_counters() const override {
    return udp_.receive_counters();
  }
  [[nodiscard]] const IntakeCounters& intake_counters() const override {
    return intake_.counters();
  }
  void before_fork() override { host_->before_fork(); }
  void after_fork_in_parent() override { host_->after_fork_in_parent(); }
  void abandon_in_child() override;

  // The processes of the host.
  [[nodiscard]] const Membership& host() const { return *host_; }

 private:
  HostLink(std::unique_ptr<Membership> host, LinkKind kind, Arrivals& arrivals);

  // The ring that leads there, if one does.
  [[nodiscard]] SharedLink::Out* ring_to(const wire::Gid& destination, Qpn qpn) const {
    return shared_ == nullptr ? nullptr : shared_->way_to(destination, qpn);
  }
  // Whether the sockets must not be used for it.
  [[nodiscard]] bool is_barred(const transport::Path& path) const {
    return kind_ == LinkKind::kShared && !path.destination.is_multicast();
  }
  void lose(uint32_t packets);
  // Takes what is in all sockets. If it is nothing, what was lost comes back.
  [[nodiscard]] size_t look_at_sockets(Time now);
  [[nodiscard, gnu::always_inline]] size_t receive_from_rings(Time now);
  [[nodiscard, gnu::always_inline]] size_t receive_from_sockets(Look look, size_t from_rings);
  // They were asked, and brought so much.
  [[gnu::always_inline]] void note_sockets(size_t got);

  std::unique_ptr<Membership> host_;
  LinkKind kind_;
  Intake intake_;
  UdpLink udp_;
  std::optional<Seal> seal_;
  std::unique_ptr<SharedLink> shared_;  // nullptr: sockets alone
  std::array<int, kMaxReceiveFds> receive_fds_{};
  size_t receive_fd_count_ = 0;
  bool expects_more_ = false;
  bool may_have_left_ = false;
  // Looks since the sockets were looked at, and empty ones of these in a row.
  uint32_t skipped_ = 0;
  uint32_t empty_ = 0;
};

}  // namespace verbena::link
