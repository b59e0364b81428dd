// SPDX-License-Identifier: Apache-2.0
// Members of a group of their own, all in this process: HostLinks, and members whose rings the test
// writes and reads itself.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"
#include "link/clock.h"
#include "link/host_link.h"
#include "link/ring_test_fixture.h"
#include "link/shared_table.h"
#include "wire/opcode.h"

namespace verbena::link::testing {

inline constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);
// Of RC.
inline constexpr auto kWriteMiddle = static_cast<uint8_t>(wire::Op::kWriteMiddle);
inline constexpr auto kSendOnly = static_cast<uint8_t>(wire::Op::kSendOnly);

[[nodiscard]] inline bool is_readable(int fd) {
  pollfd set{fd, POLLIN, 0};
  return ::poll(&set, 1, 0) == 1;
}

// How often a bell was rung, which is then silent.
[[nodiscard]] inline uint64_t rings_of(int bell) {
  uint64_t count = 0;
  return ::read(bell, &count, sizeof count) == sizeof count ? count : 0;
}

// Chooses this slot, if it is the first thing that is asked.
class ChoosesSlot final : public RandomSource {
 public:
  // The place of a slot among `free` ones.
  ChoosesSlot(uint64_t place, uint64_t free)
      : first_((std::numeric_limits<uint64_t>::max() / free) * place +
               std::numeric_limits<uint64_t>::max() / free / 2) {}
  [[nodiscard]] uint64_t next() override {
    const uint64_t first = std::exchange(first_, 0);
    return first != 0 ? first : rest_.next();
  }

 private:
  uint64_t first_;
  SeededRandom rest_{static_cast<uint64_t>(::getpid()) + 77};
};

// One process, as its device sees the link.
class Node final : public Arrivals {
 public:
  struct Arrived {
    wire::Bth bth;
    std::vector<uint8_t> payload;
    wire::Gid source;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
  };

  explicit Node(const transport::Path& path) : path_(path) {}

  void on_packet(const transport::InPacket& packet, Time) override {
    arrived.push_back({packet.view.bth,
                       {packet.view.payload.begin(), packet.view.payload.end()},
                       packet.source,
                       packet.traffic_class,
                       packet.hop_limit});
    if (on_arrival) on_arrival();
  }
  [[nodiscard]] uint32_t on_joined(const Joined&, PacketCheck&, Time) override { return 0; }
  [[nodiscard]] uint32_t on_run(const wire::Run& run, std::span<const uint8_t> payload,
                                const wire::Gid&, const wire::Gid&, bool, Time) override {
    ++runs;
    const uint32_t taken = std::min(takes_of_run, run.packets);
    wire::Bth bth = run.first.bth;
    for (uint32_t i = 0; i < taken; ++i, bth.psn = bth.psn.next()) {
      const auto part = payload.subspan(size_t{i} * run.payload_bytes(), run.payload_bytes());
      arrived.push_back({bth, {part.begin(), part.end()}, {}});
    }
    return taken;
  }

  [[nodiscard]] uint8_t slot() const { return link->slot(); }
  [[nodiscard]] Qpn qpn() const { return Qpn(uint32_t{slot()} << 16 | 5); }
  // The last of what it sleeps on.
  [[nodiscard]] int bell() const { return link->receive_fds().back(); }

  // What others say of rings.
  void hear() {
    for (int i = 0; i < 8 && is_readable(link->control_fd()); ++i)
      link->on_ready(monotonic_now(), true);
  }
  // What is there, and what they say.
  size_t serve() {
    hear();
    size_t all = 0;
    while (const size_t got = link->receive(Look::kAll, monotonic_now())) all += got;
    link->flush();
    return all;
  }
  void send(Qpn to, uint32_t psn, std::span<const uint8_t> payload) {
    const wire::Bth bth{.opcode = kSendOnly,
                        .pad_bytes = static_cast<uint8_t>(-payload.size() % 4),
                        .dest_qp = to,
                        .psn = wire::Psn(psn)};
    std::array<uint8_t, wire::Bth::kBytes> headers;
    bth.write(headers.data());
    link->send({.path = &path_,
                .headers = headers,
                .payload = {&payload, 1},
                .payload_bytes = static_cast<uint32_t>(payload.size()),
                .pad_bytes = bth.pad_bytes,
                .copy_first = true});
  }
  void send(const Node& to, uint32_t psn, size_t bytes = 8) {
    send(to.qpn(), psn, std::vector<uint8_t>(bytes, static_cast<uint8_t>(psn)));
  }
  void send_run(const Node& to, uint32_t psn, uint32_t packets, uint32_t bytes, bool ask = false) {
    send_run(to.qpn(), psn, packets, bytes, ask);
  }
  void send_run(Qpn to, uint32_t psn, uint32_t packets, uint32_t bytes, bool ask = false) {
    std::vector<uint8_t> all(size_t{packets} * bytes);
    for (uint32_t i = 0; i < packets; ++i) {
      std::fill_n(all.begin() + static_cast<ptrdiff_t>(i * bytes), bytes,
                  static_cast<uint8_t>(psn + i));
    }
    const std::span<const uint8_t> payload(all);
    link->send_run({.path = &path_,
                    .first = {.opcode = kWriteMiddle,
                              .dest_qp = to,
                              .ack_request = ask,
                              .psn = wire::Psn(psn)},
                    .payload = {&payload, 1},
                    .packet_payload = bytes,
                    .packets = packets});
    link->flush();
  }
  void send_and_flush(const Node& to, uint32_t psn, size_t bytes = 8) {
    send(to, psn, bytes);
    link->flush();
  }
  [[nodiscard]] bool has_room(const Node& to) const {
    return link->has_room_towards(path_, to.qpn());
  }
  [[nodiscard]] std::vector<uint32_t> psns() const {
    std::vector<uint32_t> all;
    for (const Arrived& one : arrived) all.push_back(one.bth.psn.value());
    return all;
  }
  // Datagrams that it gave to the kernel.
  [[nodiscard]] uint64_t datagrams_sent() const { return link->transmit_counters().sends; }
  [[nodiscard]] uint64_t bad_records() const { return link->intake_counters().bad_records; }

  std::unique_ptr<HostLink> link;
  std::vector<Arrived> arrived;
  uint32_t runs = 0;
  uint32_t takes_of_run = std::numeric_limits<uint32_t>::max();
  std::function<void()> on_arrival;

 private:
  const transport::Path& path_;
};

// A member whose rings are the test's.
class RawMember final : RingEvents, DatagramHandler {
 public:
  explicit RawMember(std::unique_ptr<Membership> joined) : host(std::move(joined)) {
    host->set_ring_events(this);
  }
  ~RawMember() override { host->set_ring_events(nullptr); }

  void hear() {
    for (int i = 0; i < 8 && is_readable(host->fd()); ++i) host->on_ready(*this);
  }
  [[nodiscard]] Qpn qpn() const { return Qpn(uint32_t{host->slot()} << 16 | 5); }

  std::unique_ptr<Membership> host;
  UniqueFd ring;  // that was offered last
  UniqueFd bell;
  uint32_t refusals = 0;
  uint32_t woken = 0;
  bool refuses = false;

 private:
  void on_ring(uint8_t slot, uint32_t, UniqueFd& offered, UniqueFd& its_bell) override {
    if (refuses) return host->refuse_ring(slot);
    ring = std::move(offered);
    bell = std::move(its_bell);
  }
  void on_bell(uint8_t, UniqueFd& offered) override { bell = std::move(offered); }
  void on_no_ring(uint8_t) override { ++refusals; }
  void on_woken() override { ++woken; }
  void on_datagram(const Datagram&) override {}
  void on_consumed(const Datagram&, uint32_t) override {}
};

class SharedLinkTest : public ::testing::Test {
 protected:
  SharedLinkTest() {
    options_.udp.port = static_cast<uint16_t>(20'000 + (::getpid() * 7 + next_++) % 6'000);
    options_.group = "vrings" + std::to_string(::getpid()) + "-" + std::to_string(next_);
    options_.slot_rest = 0;
    path_.source = path_.destination = kLoopback;
    path_.traffic_class = 32;
    path_.hop_limit = 9;
  }

  // Members answer those who join.
  void serve_while(const std::function<void()>& joining) {
    std::atomic<bool> done{false};
    std::jthread thread([&] {
      joining();
      done = true;
    });
    while (!done) {
      for (const auto& node : nodes_) {
        if (node->link != nullptr) node->hear();
      }
      for (const auto& member : raw_) {
        if (member != nullptr) member->hear();
      }
      ::usleep(100);
    }
  }
  Node& join(LinkKind kind = LinkKind::kAuto, std::optional<uint8_t> slot = {}) {
    auto node = std::make_unique<Node>(path_);
    serve_while([&] {
      auto joined = HostLink::join({.host = options_, .kind = kind}, *random_for(slot), *node);
      VERBENA_CHECK(joined);
      node->link = std::move(*joined);
    });
    nodes_.push_back(std::move(node));
    return *nodes_.back();
  }
  RawMember& join_raw(std::optional<uint8_t> slot = {}) {
    std::unique_ptr<Membership> host;
    MembershipOptions options = options_;
    options.takes_rings = true;
    serve_while([&] {
      auto joined = Membership::join(options, *random_for(slot));
      VERBENA_CHECK(joined);
      host = std::move(*joined);
    });
    raw_.push_back(std::make_unique<RawMember>(std::move(host)));
    return *raw_.back();
  }
  // As if it had been killed, as far as others see.
  void leave(Node& node) {
    auto link = std::move(node.link);
    serve_while([&] { link.reset(); });
  }
  void leave(RawMember& member) {
    for (auto& one : raw_) {
      if (one.get() == &member) one.reset();
    }
  }
  // Those who know of each other's rings and bells.
  void introduce(Node& a, Node& b) {
    a.send_and_flush(b, 0);
    b.send_and_flush(a, 0);
    for (int i = 0; i < 3; ++i) {
      (void)a.serve();
      (void)b.serve();
    }
    a.arrived.clear();
    b.arrived.clear();
    (void)rings_of(a.bell());
    (void)rings_of(b.bell());
  }
  // Until there is no room; the number of packets.
  uint32_t fill(Node& from, const Node& to, size_t bytes = 1024) {
    uint32_t sent = 0;
    while (from.has_room(to) && sent < 10'000) from.send(to, sent++, bytes);
    from.link->flush();
    return sent;
  }

  MembershipOptions options_;
  transport::Path path_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<RawMember>> raw_;

 private:
  [[nodiscard]] std::unique_ptr<RandomSource> random_for(std::optional<uint8_t> slot) const {
    if (!slot) {
      return std::make_unique<SeededRandom>(static_cast<uint64_t>(::getpid()) * 31 + ++seed_);
    }
    uint64_t below = 0;
    uint64_t taken = 0;
    const auto count = [&](uint8_t one) {
      ++taken;
      if (one < *slot) ++below;
    };
    for (const auto& node : nodes_) {
      if (node->link != nullptr) count(node->slot());
    }
    for (const auto& member : raw_) {
      if (member != nullptr) count(member->host->slot());
    }
    return std::make_unique<ChoosesSlot>(*slot - kFirstSlot - below,
                                         kLastSlot - kFirstSlot + 1 - taken);
  }
  static inline uint32_t next_ = 0;
  static inline uint64_t seed_ = 0;
};

}  // namespace verbena::link::testing
